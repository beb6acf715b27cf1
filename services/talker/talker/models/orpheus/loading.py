"""Loading an Orpheus checkpoint."""

from __future__ import annotations

from pathlib import Path

from talker.models.loading import ModelOptions
from talker.models.orpheus.family import Orpheus


def load(name: str, folder: Path, how: ModelOptions) -> Orpheus:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return Orpheus.load(name, folder, device=how.place, dtype=how.dtype)
