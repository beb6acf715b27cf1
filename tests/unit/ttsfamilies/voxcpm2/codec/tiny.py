"""A codec small enough for the engine's conformance tests."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from ttscommon.engine.device.device import Device
from ttsfamilies.base.codec.options import CodecOptions, DeviceLimits
from ttsfamilies.voxcpm2.codec import VaeDecoder, VoxcpmCodec, load_decoder
from ttsfamilies.voxcpm2.synthetic import SHORT_VAE, config, write_checkpoint


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


def tiny_on(device: Device, limits: DeviceLimits) -> VoxcpmCodec:
    """On a device."""
    torch.set_num_threads(1)
    return VoxcpmCodec("m", net(), CodecOptions(device=device, limits=limits))
