"""A codec small enough for tests, with the published rates."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ttscommon.engine.device.device import Device
from ttsfamilies.base.codec.room import DeviceLimits
from ttsfamilies.fish_s2.codec.codec import FishCodec, FishOnDevice
from ttsfamilies.fish_s2.codec.net import FishDecoder, load_decoder
from ttsfamilies.fish_s2.synthetic import add_codec


@cache
def net() -> FishDecoder:
    """Ten codebooks."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        add_codec(Path(folder), seed=2)
        return load_decoder(Path(folder))


def tiny() -> FishCodec:
    """In the engine, on the CPU."""
    return FishCodec("m", net())


def tiny_on(device: Device, room: DeviceLimits) -> FishOnDevice:
    """In the engine, on a device."""
    return FishOnDevice("m", net(), device, room)
