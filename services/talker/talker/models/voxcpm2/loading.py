"""Loading a VoxCPM2 checkpoint."""

from __future__ import annotations

from pathlib import Path

from talker.models.loading import ModelOptions
from talker.models.voxcpm2.family import Voxcpm2


def load(name: str, folder: Path, how: ModelOptions) -> Voxcpm2:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return Voxcpm2.load(name, folder, device=how.place, dtype=how.dtype)
