"""Loading a voice folder."""

from __future__ import annotations

from pathlib import Path

from ttscommon.engine.voice import load_voice
from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.vesper.family import Vesper


def load(name: str, folder: Path, how: ModelOptions) -> Vesper:
    """A voice's folder as model `name`; raises VoiceError."""
    return Vesper.load(name, load_voice(folder), how.place)
