"""The decoder: latents to 200 Hz, a transformer with a window, a SEANet decoder to 24 kHz."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.weights import Shards, Source, filled, same
from ttsfamilies.csm.mimi.net import VectorDecoder, layers
from ttsfamilies.pocket_tts.blocks import FLOW_LM, MIMI, stack_sources, window_config
from ttsfamilies.pocket_tts.sizes import LatentMimi, load_config


class LatentDecoder(VectorDecoder):
    """Latents as the talker is fed them, normalised, to sound."""

    def __init__(self, c: LatentMimi) -> None:
        sizes = c.decoder_sizes
        super().__init__(sizes, window_config(sizes))
        self.values = c.quantizer.dimension
        self.project = nn.Conv1d(self.values, sizes.hidden_size, 1, bias=False)
        self.std = nn.Parameter(torch.empty(self.values))
        self.mean = nn.Parameter(torch.empty(self.values))

    def vectors(self, frames: Tensor) -> Tensor:
        found: Tensor = self.project((frames * self.std + self.mean).transpose(1, 2))
        return found


def sources(net: LatentDecoder) -> dict[str, Source]:
    """Every parameter's published tensors."""
    found = {
        "project.weight": same(f"{MIMI}quantizer.output_proj.weight"),
        "std": same(f"{FLOW_LM}emb_std"),
        "mean": same(f"{FLOW_LM}emb_mean"),
        "stretch.weight": same(f"{MIMI}upsample.convtr.convtr.weight"),
    }
    stack = f"{MIMI}decoder_transformer.transformer."
    found |= stack_sources(net.transformer.config, "transformer.", stack)
    for ours, layer in layers(net.sizes):
        kind = "convtr" if ours.endswith(".up") else "conv"
        for part in ("weight", "bias"):
            found[f"{ours}.{part}"] = same(f"{MIMI}decoder.model.{layer}.{kind}.{part}")
    return found


def load_decoder(folder: Path, device: str = "cpu") -> LatentDecoder:
    """The decoder in a folder, in float32; raises CheckpointError."""
    with torch.device("meta"):
        net = LatentDecoder(load_config(folder).mimi)
    stated, shards = sources(net), Shards.of(folder)
    unused = tuple(f"{MIMI}{part}" for part in ("encoder", "downsample."))
    others = (FLOW_LM, *unused)
    return filled(net, stated, shards, others=others, device=device)
