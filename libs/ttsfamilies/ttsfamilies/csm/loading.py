"""Loading a CSM checkpoint."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.csm.family import Csm


def load(name: str, folder: Path, how: ModelOptions) -> Csm:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return Csm.load(name, folder, device=how.place, dtype=how.dtype)
