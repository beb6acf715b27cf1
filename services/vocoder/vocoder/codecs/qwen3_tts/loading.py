"""Loading the codec of Qwen3-TTS."""

from __future__ import annotations

from pathlib import Path

from vocoder.codecs.base import Codec
from vocoder.codecs.loading import CodecOptions
from vocoder.codecs.qwen3_tts.codec import Qwen3Codec
from vocoder.codecs.qwen3_tts.device import Qwen3DeviceCodec
from vocoder.codecs.qwen3_tts.stream import Windows


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """The codec's own folder as model `name`; raises CheckpointError."""
    cut = Windows(*how.windows) if how.windows else None
    if how.device is None:
        return Qwen3Codec.load(name, folder, cut)
    return Qwen3DeviceCodec.load(name, folder, how.device, how.room, cut)
