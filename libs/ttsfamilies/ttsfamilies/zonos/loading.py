"""Loading a Zonos checkpoint."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.zonos.family import Zonos
from ttsfamilies.zonos.phones import Readings


def load(name: str, folder: Path, how: ModelOptions) -> Zonos:
    """A checkpoint's folder as model `name`; raises CheckpointError."""
    readings = Readings.load(how.lexicon)
    return Zonos.load(name, folder, readings, device=how.place, dtype=how.dtype)
