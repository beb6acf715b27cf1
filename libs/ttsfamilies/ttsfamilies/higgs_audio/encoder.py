"""The encoder of Higgs Audio's codec: a waveform to eight codes a frame. Always float32.

What HuBERT hears at 16 kHz and what DAC's encoder hears at 24 kHz are quantised together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, gelu, pad

from ttscommon.engine.nn.decoder import dense_attention
from ttscommon.engine.nn.weights import Source, filled, named, unfilled
from ttsfamilies.base.codec.dac_encoder import wave_encoder, wave_sources
from ttsfamilies.higgs_audio.sizes import (
    HiggsCodecSizes,
    HubertSizes,
    load_sizes,
    parts,
    tensors_of,
)


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
        return self.norm(x + self.down(gelu(self.up(x))))


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
    found = named(net, _NAMES, ours, theirs)
    placed = f"{theirs}encoder.pos_conv_embed.conv.parametrizations.weight.original"
    found[f"{ours}around.weight"] = Source((f"{placed}0", f"{placed}1"), folded=True, by=2)
    rows = (net.project.out_features,) * 3
    for i in range(len(net.layers)):
        parts = tuple(f"{theirs}encoder.layers.{i}.attention.{which}_proj." for which in "qkv")
        for kind in ("weight", "bias"):
            names = tuple(f"{part}{kind}" for part in parts)
            found[f"{ours}layers.{i}.qkv.{kind}"] = Source(names, rows)
    return found


_NAMES: Final = {
    "convs.convs.*": "feature_extractor.conv_layers.*.conv",
    "convs.norm": "feature_extractor.conv_layers.0.layer_norm",
    "feature_norm": "feature_projection.layer_norm",
    "project": "feature_projection.projection",
    "norm": "encoder.layer_norm",
    "around.bias": "encoder.pos_conv_embed.conv.bias",
    "layers.*.out": "encoder.layers.*.attention.out_proj",
    "layers.*.attention_norm": "encoder.layers.*.layer_norm",
    "layers.*.up": "encoder.layers.*.feed_forward.intermediate_dense",
    "layers.*.down": "encoder.layers.*.feed_forward.output_dense",
    "layers.*.norm": "encoder.layers.*.final_layer_norm",
}
# Samples at 16 kHz, on either side of what HuBERT hears.
_QUIET = 160


class FeatureUnit(nn.Module):
    """Two convolutions around a residual."""

    def __init__(self, dim: int, kernel: int, dilation: int) -> None:
        super().__init__()
        around = (kernel - 1) // 2 * dilation
        self.conv1 = nn.Conv1d(dim, dim, kernel, padding=around, dilation=dilation, bias=False)
        self.conv2 = nn.Conv1d(dim, dim, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[1, dim, frames] -> the same."""
        found: Tensor = self.conv2(elu(self.conv1(elu(x))))
        return x + found


class HiggsEncoderLevel(nn.Module):
    """One codebook, which says of what the ones before it left over as much as it can."""

    def __init__(self, c: HiggsCodecSizes) -> None:
        super().__init__()
        self.into = nn.Linear(c.latent, c.codebook_dim)
        self.codebook = nn.Embedding(c.codebook_size, c.codebook_dim)
        self.out = nn.Linear(c.codebook_dim, c.latent)

    def forward(self, rest: Tensor) -> tuple[Tensor, Tensor]:
        """[frames, latent] -> codes [frames] int64, and what is left over."""
        inner, entries = self.into(rest), self.codebook.weight
        lengths = inner.pow(2).sum(1, keepdim=True), entries.pow(2).sum(1)
        codes = (lengths[0] - 2 * inner @ entries.T + lengths[1]).argmin(-1)
        return codes, rest - self.out(self.codebook(codes))


class HiggsEncoder(nn.Module):
    """Waveforms of whole frames to their codes."""

    def __init__(self, c: HiggsCodecSizes) -> None:
        super().__init__()
        acoustic, self.sizes = c.acoustic_model_config, c
        self.hubert = Hubert(c.semantic_model_config)
        dim = c.semantic_model_config.hidden_size
        self.features = nn.Conv1d(dim, dim, c.kernel_size, padding=c.kernel_size // 2, bias=False)
        blocks = (
            (
                *(FeatureUnit(dim, c.unit_kernel_size, d) for d in c.block_dilations),
                nn.Conv1d(dim, dim, 3, padding=1),
            )
            for _ in c.strides
        )
        self.blocks = nn.ModuleList(nn.Sequential(*block) for block in blocks)
        self.waves = wave_encoder(
            acoustic.encoder_hidden_size, acoustic.downsampling_ratios, acoustic.hidden_size
        )
        self.both = nn.Linear(c.latent, c.latent)
        self.levels = nn.ModuleList(HiggsEncoderLevel(c) for _ in range(c.codebooks))

    def forward(self, wav: Tensor, slower: Tensor) -> Tensor:
        """[samples] float32 in -1..1 at the codec's rate, and the same at HuBERT's -> [frames,
        codebooks] int64.
        """
        heard = self._heard(slower)
        waves = self.waves(wav[None, None])
        if waves.shape[2] != heard.shape[2]:
            half = self.sizes.frame_samples // 2
            waves = self.waves(pad(wav, (half, half))[None, None])
        rest, found = self.both(torch.cat((waves, heard), 1)[0].T), []
        for level in self.levels:
            codes, rest = level(rest)
            found.append(codes)
        return torch.stack(found, -1)

    def _heard(self, wav: Tensor) -> Tensor:
        """[samples] -> [1, dim, frames]."""
        states = self.hubert(pad(wav, (_QUIET, _QUIET)))[:: max(1, self.sizes.semantic_step)]
        x = self.features(states.T[None])
        for block in self.blocks:
            x = block(x)
        return x


def encoder_sources(net: HiggsEncoder, theirs: str = "") -> dict[str, Source]:
    """Every parameter's published tensors, whose names begin with `theirs`."""
    units = len(net.sizes.block_dilations)
    places = {
        "features": "encoder_semantic.conv",
        "both": "fc",
        f"blocks.*.{units}": "encoder_semantic.conv_blocks.*.conv",
        "blocks.*.*": "encoder_semantic.conv_blocks.*.res_units.*",
        "levels.*.codebook.weight": "quantizer.quantizers.*.codebook.embed",
        "levels.*.into": "quantizer.quantizers.*.project_in",
        "levels.*.out": "quantizer.quantizers.*.project_out",
    }
    found = wave_sources(net.waves, "waves.", f"{theirs}acoustic_encoder.")
    found |= hubert_sources(net.hubert, "hubert.", f"{theirs}semantic_model.")
    return found | named(net, places, theirs=theirs)


def load_encoder(folder: Path, device: str = "cpu") -> HiggsEncoder:
    """The encoder in a codec's folder; raises CheckpointError."""
    sizes, theirs = load_sizes(folder)
    net, shards = unfilled(HiggsEncoder, sizes), tensors_of(folder)
    return filled(net, encoder_sources(net, theirs), shards, others=parts(theirs), device=device)
