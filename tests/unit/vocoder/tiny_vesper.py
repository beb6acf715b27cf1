"""A vesper codec small enough for the engine's tests, with random weights."""

from dataclasses import replace

import torch

from ttscommon.engine.device.device import Device
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.codec.options import CodecOptions, DeviceLimits
from ttsfamilies.vesper.codec.codec import Preset, VesperCodec, VesperOnDevice
from ttsfamilies.vesper.codec.net import VesperCodecConfig, VesperDecoder

ENTRIES = 512
SMALL = VesperCodecConfig(codebook_size=ENTRIES, text_codes=ENTRIES, text_dim=16, dim=32)
LONGER = replace(SMALL, hop=340)
VOICES = (Voice("slt", "SLT", "en"), Voice("sick", "sick", "en"))
# The second one makes samples that are not finite.
PRESETS = {"slt": Preset(0.1, 1.2), "sick": Preset(float("nan"), 1.0)}


def drawn(config: VesperCodecConfig = SMALL) -> VesperDecoder:
    """Mostly voiced, so that the pulses' phase depends on frames long past."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    decoder = VesperDecoder(config)
    torch.nn.init.normal_(decoder.pitch_table, std=0.3)
    torch.nn.init.normal_(decoder.energy_table)
    torch.nn.init.normal_(decoder.text_table)
    decoder.pitch_table.data[..., 1] = 2.0
    decoder.pitch_table.data[:60, :, 1] = 0.0
    decoder.head.bias.data -= 2
    return decoder.requires_grad_(False)


def tiny(config: VesperCodecConfig = SMALL) -> VesperCodec:
    """In the engine, on the CPU."""
    return VesperCodec("m", drawn(config), VOICES, PRESETS)


def tiny_on(
    device: Device, limits: DeviceLimits, config: VesperCodecConfig = SMALL
) -> VesperOnDevice:
    """In the engine, on a device."""
    how = CodecOptions(device=device, limits=limits)
    return VesperOnDevice("m", drawn(config), VOICES, PRESETS, how)
