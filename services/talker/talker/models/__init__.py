"""Model families: found by the family that a voice's or a checkpoint's config names."""

from __future__ import annotations

from pathlib import Path

from talker.models.base import TalkerModel
from ttscommon.checkpoint import find_checkpoint, is_checkpoint
from ttscommon.errors import UnknownModel
from ttscommon.voice import load_voice


def load(name: str, path: Path, *, pads: bool = False) -> TalkerModel:
    """Load a voice folder or a published checkpoint, by folder or hub name, as model `name`.

    pads: see Qwen3Tts. Raises VoiceError or UnknownModel. torch is imported only for families that
    use it.
    """
    if is_checkpoint(path):
        from talker.models.qwen3_tts.family import Qwen3Tts

        return Qwen3Tts.load(name, find_checkpoint(str(path)), pads=pads)
    voice = load_voice(path)
    if voice.family == "cantor":
        from talker.models.cantor import Cantor

        return Cantor.load(name, voice)
    if voice.family == "vesper":
        from talker.models.vesper import Vesper

        return Vesper.load(name, voice)
    raise UnknownModel(f"there is no model family {voice.family!r}", param="model")
