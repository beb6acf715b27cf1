"""Loading a Zonos checkpoint."""

from __future__ import annotations

from pathlib import Path

from talker.models.loading import ModelOptions
from talker.models.zonos.family import Zonos
from talker.models.zonos.phones import Readings


def load(name: str, folder: Path, how: ModelOptions) -> Zonos:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    readings = Readings.load(how.lexicon)
    return Zonos.load(name, folder, readings, device=how.place, dtype=how.dtype)
