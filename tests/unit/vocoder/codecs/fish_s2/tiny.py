"""A codec small enough for tests, with the published rates."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from antiphon_bench.synthetic.fish_s2 import add_codec
from ttscommon.engine.device.device import Device
from vocoder.codecs.fish_s2.codec import FishCodec, FishOnDevice
from vocoder.codecs.fish_s2.net import FishDecoder, load_decoder
from vocoder.codecs.room import DeviceLimits


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
