"""Loading the codec of Qwen3-TTS."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.loading import CodecOptions
from ttsfamilies.qwen3_tts.codec.codec import Qwen3Codec
from ttsfamilies.qwen3_tts.codec.device import Qwen3DeviceCodec
from ttsfamilies.qwen3_tts.codec.stream import Windows


def load(name: str, folder: Path, how: CodecOptions) -> Codec:
    """The codec's own folder as model `name`; raises CheckpointError."""
    cut = Windows(*how.windows) if how.windows else None
    if how.device is None:
        return Qwen3Codec.load(name, folder, cut)
    return Qwen3DeviceCodec.load(
        name, folder, how.device, how.room, cut, tensor_cores=how.tensor_cores
    )
