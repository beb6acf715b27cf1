"""HuBERT (Hsu et al., 2021): a waveform at 16 kHz to features at 50 Hz, the mean of all layers'.

Always float32. Higgs Audio's codec listens with it.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from ttscommon.engine.nn.decoder import dense_attention
from ttscommon.engine.nn.weights import Source, same
from ttsfamilies.higgs_audio.sizes import HubertSizes

_BOTH: Final = ("weight", "bias")


class HubertConvs(nn.Module):
    """[1, 1, samples] -> [1, channels, frames]; a norm over time behind the first."""

    def __init__(self, c: HubertSizes) -> None:
        super().__init__()
        inputs = (1, *c.conv_dim)
        sizes = zip(inputs, c.conv_dim, c.conv_kernel, c.conv_stride, strict=False)
        self.convs = nn.ModuleList(nn.Conv1d(*size, bias=False) for size in sizes)
        self.norm = nn.GroupNorm(c.conv_dim[0], c.conv_dim[0])

    def forward(self, x: Tensor) -> Tensor:
        for i, conv in enumerate(self.convs):
            x = conv(x)
            x = gelu(x if i else self.norm(x))
        return x


class HubertLayer(nn.Module):
    """Attention of all positions to all, and a feed-forward network, each normed behind."""

    def __init__(self, c: HubertSizes) -> None:
        super().__init__()
        self.heads = c.num_attention_heads
        self.qkv = nn.Linear(c.hidden_size, 3 * c.hidden_size)
        self.out = nn.Linear(c.hidden_size, c.hidden_size)
        self.attention_norm = nn.LayerNorm(c.hidden_size, c.layer_norm_eps)
        self.up = nn.Linear(c.hidden_size, c.intermediate_size)
        self.down = nn.Linear(c.intermediate_size, c.hidden_size)
        self.norm = nn.LayerNorm(c.hidden_size, c.layer_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """[frames, dim] -> the same."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(1)
        x = self.attention_norm(x + self.out(dense_attention(q, k, v, None).flatten(-2)))
        found: Tensor = self.norm(x + self.down(gelu(self.up(x))))
        return found


class Hubert(nn.Module):
    """All of it."""

    def __init__(self, c: HubertSizes) -> None:
        super().__init__()
        self.convs = HubertConvs(c)
        self.feature_norm = nn.LayerNorm(c.conv_dim[-1], c.layer_norm_eps)
        self.project = nn.Linear(c.conv_dim[-1], c.hidden_size)
        kernel = self.kernel = c.num_conv_pos_embeddings
        groups = c.num_conv_pos_embedding_groups
        self.around = nn.Conv1d(
            c.hidden_size, c.hidden_size, kernel, padding=kernel // 2, groups=groups
        )
        self.norm = nn.LayerNorm(c.hidden_size, c.layer_norm_eps)
        self.layers = nn.ModuleList(HubertLayer(c) for _ in range(c.num_hidden_layers))

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] -> [frames, dim]."""
        x = self.project(self.feature_norm(self.convs(wav[None, None])[0].T))
        placed = self.around(x.T[None])[0, :, : len(x)].T
        states = [self.norm(x + gelu(placed))]
        for layer in self.layers:
            states.append(layer(states[-1]))
        return torch.stack(states).mean(0)


def hubert_sources(net: Hubert, ours: str, theirs: str) -> dict[str, Source]:
    """Every parameter by transformers' names; what both begin with, dot included."""
    convs, placed = f"{theirs}feature_extractor.conv_layers.", f"{theirs}encoder.pos_conv_embed."
    found = {
        f"{ours}convs.convs.{i}.weight": same(f"{convs}{i}.conv.weight")
        for i in range(len(net.convs.convs))
    }
    length, direction = (f"{placed}conv.parametrizations.weight.original{i}" for i in (0, 1))
    found[f"{ours}around.weight"] = Source((length, direction), folded=True, by=2)
    for part in _BOTH:
        found[f"{ours}convs.norm.{part}"] = same(f"{convs}0.layer_norm.{part}")
        for mine, other in (
            ("feature_norm", "feature_projection.layer_norm"),
            ("project", "feature_projection.projection"),
            ("norm", "encoder.layer_norm"),
        ):
            found[f"{ours}{mine}.{part}"] = same(f"{theirs}{other}.{part}")
        for i in range(len(net.layers)):
            layer = _layer_sources(part, f"{theirs}encoder.layers.{i}.", net.project.out_features)
            found |= {f"{ours}layers.{i}.{name}": source for name, source in layer.items()}
    found[f"{ours}around.bias"] = same(f"{placed}conv.bias")
    return found


def _layer_sources(part: str, theirs: str, dim: int) -> dict[str, Source]:
    names = tuple(f"{theirs}attention.{which}_proj.{part}" for which in "qkv")
    found = {f"qkv.{part}": Source(names, (dim,) * 3)}
    for mine, other in (
        ("out", "attention.out_proj"),
        ("attention_norm", "layer_norm"),
        ("up", "feed_forward.intermediate_dense"),
        ("down", "feed_forward.output_dense"),
        ("norm", "final_layer_norm"),
    ):
        found[f"{mine}.{part}"] = same(f"{theirs}{other}.{part}")
    return found
