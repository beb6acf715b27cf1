"""Loading an Orpheus checkpoint."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.orpheus.family import Orpheus


def load(name: str, folder: Path, how: ModelOptions) -> Orpheus:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return Orpheus.load(name, folder, device=how.place, dtype=how.dtype)
