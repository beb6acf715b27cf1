"""A codec small enough for tests, with the published rates."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ttscommon.engine.checkpoint import dump_json
from ttscommon.engine.device.device import Device
from ttsfamilies.base.codec.options import CodecOptions, DeviceLimits
from ttsfamilies.base.codec.stateful import CausalCodec
from ttsfamilies.csm.mimi.codec import codec_of
from ttsfamilies.csm.mimi.net import MimiDecoder, load_decoder
from ttsfamilies.csm.mimi.synthetic import TINY, add_decoder


@cache
def net() -> MimiDecoder:
    """Four codebooks."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        dump_json(Path(folder) / "config.json", TINY)
        add_decoder(Path(folder), seed=2)
        return load_decoder(Path(folder))


def tiny() -> CausalCodec:
    """In the engine, on the CPU."""
    return codec_of("m", net())


def tiny_on(device: Device, limits: DeviceLimits) -> CausalCodec:
    """In the engine, on a device."""
    return codec_of("m", net(), CodecOptions(device=device, limits=limits))
