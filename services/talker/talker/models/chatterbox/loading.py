"""Loading a Chatterbox checkpoint."""

from __future__ import annotations

from pathlib import Path

from talker.models.chatterbox.family import Chatterbox
from talker.models.loading import ModelOptions


def load(name: str, folder: Path, how: ModelOptions) -> Chatterbox:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    return Chatterbox.load(name, folder, device=how.place, dtype=how.dtype)
