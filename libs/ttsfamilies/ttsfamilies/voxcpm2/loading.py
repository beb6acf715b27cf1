"""Loading a VoxCPM2 checkpoint."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.voxcpm2.family import Voxcpm2


def load(name: str, folder: Path, how: ModelOptions) -> Voxcpm2:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return Voxcpm2.load(name, folder, device=how.place, dtype=how.dtype)
