"""Loading a Chatterbox checkpoint."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.chatterbox.family import Chatterbox


def load(name: str, folder: Path, how: ModelOptions) -> Chatterbox:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return Chatterbox.load(name, folder, device=how.place, dtype=how.dtype)
