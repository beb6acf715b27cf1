"""A codec small enough for tests, with the published rates."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ttscommon.engine.device.device import Device
from ttsfamilies.base.codec.options import CodecOptions, DeviceLimits
from ttsfamilies.base.codec.stateful import CausalCodec
from ttsfamilies.fish_s2.codec import FishDecoder, codec_of, load_decoder
from ttsfamilies.fish_s2.synthetic import add_codec


@cache
def net() -> FishDecoder:
    """Ten codebooks."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        add_codec(Path(folder), seed=2)
        return load_decoder(Path(folder))


def tiny() -> CausalCodec:
    """In the engine, on the CPU."""
    return codec_of("m", net())


def tiny_on(device: Device, limits: DeviceLimits) -> CausalCodec:
    """In the engine, on a device."""
    return codec_of("m", net(), CodecOptions(device=device, limits=limits))
