"""Loading a voice folder."""

from __future__ import annotations

from pathlib import Path

from talker.models.loading import ModelOptions
from talker.models.vesper.family import Vesper
from ttscommon.engine.voice import load_voice


def load(name: str, folder: Path, how: ModelOptions) -> Vesper:
    """A voice's folder as model `name`; raises VoiceError."""
    return Vesper.load(name, load_voice(folder), how.place)
