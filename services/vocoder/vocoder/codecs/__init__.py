"""Codec families: one file each, found by the name in a voice's config."""

from __future__ import annotations

from pathlib import Path

from ttscommon.errors import UnknownModel
from ttscommon.voice import load_voice
from vocoder.codecs.base import Codec


def load(name: str, path: Path) -> Codec:
    """The codec of the voice folder `path`, to be served as model `name`.

    Torch is imported only for families that use it. Raises VoiceError, or UnknownModel for a
    family that is not built in.
    """
    voice = load_voice(path)
    if voice.family == "cantor":
        from vocoder.codecs.cantor import Cantor

        return Cantor.load(name, voice)
    if voice.family == "vesper":
        from vocoder.codecs.vesper import Vesper

        return Vesper.load(name, voice)
    raise UnknownModel(f"there is no codec family {voice.family!r}", param="model")
