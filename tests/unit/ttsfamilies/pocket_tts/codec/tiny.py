"""A codec small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ttscommon.engine.device.device import Device
from ttsfamilies.base.codec.options import CodecOptions, DeviceLimits
from ttsfamilies.pocket_tts.codec import LatentDecoder, PocketCodec, load_decoder
from ttsfamilies.pocket_tts.synthetic import write_checkpoint


@cache
def net() -> LatentDecoder:
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=2)
        return load_decoder(Path(folder))


def tiny() -> PocketCodec:
    torch.set_num_threads(1)
    return PocketCodec("m", net())


def tiny_on(device: Device, limits: DeviceLimits) -> PocketCodec:
    """On a device."""
    torch.set_num_threads(1)
    return PocketCodec("m", net(), CodecOptions(device=device, limits=limits))
