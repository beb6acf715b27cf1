"""Loading a CSM checkpoint."""

from __future__ import annotations

from pathlib import Path

from talker.models.csm.family import Csm
from talker.models.loading import ModelOptions


def load(name: str, folder: Path, how: ModelOptions) -> Csm:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return Csm.load(name, folder, device=how.place, dtype=how.dtype)
