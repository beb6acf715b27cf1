"""code2wav small enough for tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from ttscommon.engine.device.device import Device
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.options import CodecOptions, DeviceLimits
from ttsfamilies.qwen3_omni.codec import LaggingDecoder, OmniCodec, load_decoder
from ttsfamilies.qwen3_omni.synthetic import write_checkpoint


@cache
def _net() -> LaggingDecoder:
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=1, codebooks=4)
        return load_decoder(Path(folder))


@cache
def tiny() -> Codec:
    return OmniCodec("m", _net())


def tiny_on(device: Device, limits: DeviceLimits) -> Codec:
    return OmniCodec("m", _net(), CodecOptions(device=device, limits=limits))
