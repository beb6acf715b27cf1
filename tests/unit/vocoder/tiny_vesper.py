"""A vesper codec small enough for the engine's tests, with random weights."""

from __future__ import annotations

import torch

from ttscommon.replicas import Voice
from vocoder.codecs.vesper import Preset, Vesper
from vocoder.codecs.vesper_net import VesperCodecConfig, VesperDecoder

ENTRIES = 512
SMALL = VesperCodecConfig(codebook_size=ENTRIES, text_codes=ENTRIES, text_dim=16, dim=32)
VOICES = (Voice("slt", "SLT", "en"),)


def tiny() -> Vesper:
    """Mostly voiced, so that the pulses' phase depends on frames long past; a preset of its own."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    decoder = VesperDecoder(SMALL)
    torch.nn.init.normal_(decoder.pitch_table, std=0.3)
    torch.nn.init.normal_(decoder.energy_table)
    torch.nn.init.normal_(decoder.text_table)
    decoder.pitch_table.data[..., 1] = 2.0
    decoder.pitch_table.data[:60, :, 1] = 0.0
    decoder.head.bias.data -= 2
    return Vesper("m", decoder, VOICES, {"slt": Preset(0.1, 1.2)})
