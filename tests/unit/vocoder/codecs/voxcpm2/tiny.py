"""A codec small enough for the engine's conformance tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from antiphon_bench.synthetic.voxcpm2 import SHORT_VAE, config, write_checkpoint
from ttscommon.engine.device.device import Device
from vocoder.codecs.room import DeviceLimits
from vocoder.codecs.voxcpm2.codec import VoxcpmCodec, VoxcpmOnDevice
from vocoder.codecs.voxcpm2.net import VaeDecoder, load_decoder


@cache
def net() -> VaeDecoder:
    """Patches of 48 samples."""
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), config(vae=SHORT_VAE), seed=2)
        return load_decoder(Path(folder))


@cache
def tiny() -> VoxcpmCodec:
    torch.set_num_threads(1)
    return VoxcpmCodec("m", net())


def tiny_on(device: Device, room: DeviceLimits) -> VoxcpmOnDevice:
    """On a device."""
    torch.set_num_threads(1)
    return VoxcpmOnDevice("m", net(), device, room)
