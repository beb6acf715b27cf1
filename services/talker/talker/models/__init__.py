"""Model families: one file each, found by the family that a voice's config names."""

from __future__ import annotations

from pathlib import Path

from talker.models.base import TalkerModel
from ttscommon.errors import UnknownModel
from ttscommon.voice import load_voice


def load(name: str, path: Path) -> TalkerModel:
    """Load the voice folder `path` to serve as model `name`; raises VoiceError or UnknownModel.

    torch is imported only for families that use it.
    """
    voice = load_voice(path)
    if voice.family == "cantor":
        from talker.models.cantor import Cantor

        return Cantor.load(name, voice)
    if voice.family == "vesper":
        from talker.models.vesper import Vesper

        return Vesper.load(name, voice)
    raise UnknownModel(f"there is no model family {voice.family!r}", param="model")
