"""Codec families: found by the family that a voice's or a checkpoint's config names."""

from __future__ import annotations

from pathlib import Path

from ttscommon.checkpoint import find_checkpoint, is_checkpoint
from ttscommon.errors import UnknownModel
from ttscommon.voice import load_voice
from vocoder.codecs.base import Codec


def load(
    name: str, path: Path, windows: tuple[int, int] | None = None, *, device: str = "cpu"
) -> Codec:
    """The codec of a voice folder or of a published checkpoint, to be served as model `name`.

    windows: frames decoded together and left context, for families that can be windowed; None
    carries exact state. device: "cpu", "cuda" or "cuda:1", where a checkpoint's codec computes; the
    others stay on the CPU. Torch is imported only for families that use it. Raises VoiceError,
    DeviceError, or UnknownModel for a family that is not built in.
    """
    if is_checkpoint(path):
        from ttscommon.device.device import device_of
        from vocoder.codecs.qwen3_tts.codec import Qwen3Codec
        from vocoder.codecs.qwen3_tts.stream import Windows

        checkpoint, found = find_checkpoint(str(path)), device_of(device)
        where = "cpu" if found is None else str(found.where)
        cut = windows and Windows(*windows)
        return Qwen3Codec.load(name, checkpoint, device=where, windows=cut)
    voice = load_voice(path)
    if voice.family == "vesper":
        from vocoder.codecs.vesper import Vesper

        return Vesper.load(name, voice)
    raise UnknownModel(f"there is no codec family {voice.family!r}", param="model")
