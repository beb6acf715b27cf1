"""Loading an Orpheus checkpoint."""

from __future__ import annotations

from pathlib import Path

from talker.models.loading import Loading
from talker.models.orpheus.family import Orpheus


def load(name: str, folder: Path, how: Loading) -> Orpheus:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return Orpheus.load(name, folder, device=how.place, dtype=how.dtype)
