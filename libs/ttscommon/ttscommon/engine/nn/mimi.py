"""Mimi's encoder (Défossez et al., 2024): a waveform to codes.

A SEANet encoder to 25 Hz, a transformer, a convolution to 12.5 Hz, and split residual
quantisation. Always float32.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from ttscommon.engine.codec_sizes import MimiSizes
from ttscommon.engine.nn.decoder import Decoder, DecoderConfig, dense_attention
from ttscommon.engine.nn.rope import RopeConfig
from ttscommon.engine.nn.weights import Source, decoder_sources, named, same

USAGE_FLOOR = 1e-5
# Of a transformer: half a minute at 25 Hz.
_MOST_STEPS, _PIECE_STEPS = 1024, 500


def transformer_config(c: MimiSizes) -> DecoderConfig:
    """The transformer of encoder and decoder."""
    return DecoderConfig(
        dim=c.hidden_size,
        layers=c.num_hidden_layers,
        heads=c.num_attention_heads,
        kv_heads=c.num_key_value_heads,
        head_dim=c.head_size,
        hidden=c.intermediate_size,
        eps=c.norm_eps,
        rope=RopeConfig(theta=c.theta),
        norm="layer",
        mlp="gelu",
        layer_scale=True,
        final_norm=False,
        qkv_bias=c.attention_bias,
        out_bias=c.attention_bias,
    )


class StridedConv1d(nn.Conv1d):
    """A causal convolution that rounds its number of outputs up."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, dilation: int = 1,
        bias: bool = True, edge: Literal["constant", "replicate"] = "constant",
    ) -> None:  # fmt: skip
        super().__init__(inputs, outputs, kernel, stride, dilation=dilation, bias=bias)
        self.edge = edge
        self.before = (kernel - 1) * dilation + 1 - stride

    def forward(self, x: Tensor) -> Tensor:
        """[batch, inputs, steps] -> [batch, outputs, steps / stride, rounded up]."""
        behind = -x.shape[2] % self.stride[0]
        return super().forward(nn.functional.pad(x, (self.before, behind), self.edge))


class ResidualBlock(nn.Module):
    """A dilated convolution to half the width and a pointwise one back, around a residual."""

    def __init__(self, c: MimiSizes, size: int, dilation: int) -> None:
        super().__init__()
        inner = size // c.compress
        self.block = nn.Sequential(
            nn.ELU(),
            StridedConv1d(size, inner, c.residual_kernel_size, dilation=dilation),
            nn.ELU(),
            StridedConv1d(inner, size, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """[batch, size, steps] -> the same."""
        return x + self.block(x)


def seanet(c: MimiSizes) -> nn.Sequential:
    """[batch, 1, samples] -> [batch, hidden_size, steps at 25 Hz]."""
    width = c.num_filters
    layers: list[nn.Module] = [StridedConv1d(c.audio_channels, width, c.kernel_size)]
    for ratio in reversed(c.upsampling_ratios):
        dilations = [c.dilation_growth_rate**depth for depth in range(c.num_residual_layers)]
        layers += [ResidualBlock(c, width, dilation) for dilation in dilations]
        layers += [nn.ELU(), StridedConv1d(width, 2 * width, 2 * ratio, stride=ratio)]
        width *= 2
    return nn.Sequential(*layers, nn.ELU(), StridedConv1d(width, c.hidden_size, c.last_kernel_size))


class ResidualQuantizer(nn.Module):
    """Nearest entries, codebook after codebook, of what the ones before left over."""

    def __init__(self, c: MimiSizes, count: int) -> None:
        super().__init__()
        self.project = nn.Conv1d(c.hidden_size, c.codebook_dim, 1, bias=False)
        self.sums = nn.Parameter(torch.empty(count, c.codebook_size, c.codebook_dim))
        self.usage = nn.Parameter(torch.empty(count, c.codebook_size))

    def forward(self, x: Tensor) -> Tensor:
        """[1, hidden_size, frames] -> [frames, codebooks] int64."""
        rest, codes = self.project(x)[0].T, []
        for entries in self.sums / self.usage.clamp(min=USAGE_FLOOR)[..., None]:
            codes.append(torch.cdist(rest[None], entries[None])[0].argmin(-1))
            rest = rest - entries[codes[-1]]
        return torch.stack(codes, -1)


class LatentEncoder(nn.Module):
    """Waveforms to vectors at the frame rate.

    stack: of the transformer. window: steps that one step attends to, itself included; None for
    all before it. latent: values of a frame.
    """

    def __init__(self, c: MimiSizes, stack: DecoderConfig, window: int | None, latent: int) -> None:
        super().__init__()
        self.window = window
        self.convolutions = seanet(c)
        self.transformer = Decoder(stack)
        self.slow_down = StridedConv1d(
            c.hidden_size, latent, 2 * c.last_stride, stride=c.last_stride, bias=False,
            edge="replicate",
        )  # fmt: skip

    def latents(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1 -> [1, latent, frames], the last frame maybe partial."""
        x = self.convolutions(wav[None, None]).transpose(1, 2)
        steps = torch.arange(x.shape[1], device=x.device)
        x = self.transformer(x, steps, self._attend)
        return self.slow_down(x.transpose(1, 2))

    def _attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Long sequences with a window go piece by piece: a whole mask takes gigabytes."""
        del layer
        steps, window = q.shape[1], self.window
        size = steps if window is None or steps <= _MOST_STEPS else max(window, _PIECE_STEPS)
        found = []
        for start in range(0, steps, size):
            first = 0 if window is None or size == steps else max(0, start - window + 1)
            stop = min(steps, start + size)
            query = torch.arange(start, stop, device=q.device)[:, None]
            age = query - torch.arange(first, stop, device=q.device)
            visible = age >= 0 if window is None else (age >= 0) & (age < window)
            keys = slice(first, stop)
            found.append(dense_attention(q[:, start:stop], k[:, keys], v[:, keys], visible))
        return torch.cat(found, 1)


class MimiEncoder(LatentEncoder):
    """Waveforms at 24 kHz to frames of codes.

    codebooks: so many of the published ones. window: see LatentEncoder.
    """

    def __init__(self, c: MimiSizes, codebooks: int, window: int | None) -> None:
        super().__init__(c, transformer_config(c), window, c.hidden_size)
        self.semantic = ResidualQuantizer(c, 1)
        self.acoustic = ResidualQuantizer(c, codebooks - 1)

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1 -> [frames, codebooks] int64, the last frame maybe partial."""
        x = self.latents(wav)
        return torch.cat((self.semantic(x), self.acoustic(x)), 1)


def encoder_sources(net: MimiEncoder, theirs: str) -> dict[str, Source]:
    """Every parameter's published tensors, whose names begin with `theirs`."""
    places = {"*.block.*": "encoder.layers.*.block.*.conv", "*": "encoder.layers.*.conv"}
    found = named(net.convolutions, places, "convolutions.", theirs)
    found |= named(net, {"slow_down": "downsample.conv"}, theirs=theirs)
    stack = f"{theirs}encoder_transformer."
    found |= decoder_sources(net.transformer.config, "transformer.", stack)
    for kind, quantizer in (("semantic", net.semantic), ("acoustic", net.acoustic)):
        part = quantizer_part(theirs, kind)
        found[f"{kind}.project.weight"] = same(f"{part}input_proj.weight")
        found |= codebook_sources(f"{kind}.", part, len(quantizer.sums))
    return found


def quantizer_part(theirs: str, kind: str) -> str:
    """What the names of the semantic or the acoustic quantizer begin with."""
    return f"{theirs}quantizer.{kind}_residual_vector_quantizer."


def codebook_sources(ours: str, part: str, count: int) -> dict[str, Source]:
    """`sums` and `usage` of the first `count` codebooks of a quantizer."""
    books = [f"{part}layers.{i}.codebook." for i in range(count)]
    return {
        f"{ours}sums": Source(tuple(f"{book}embed_sum" for book in books), stacked=True),
        f"{ours}usage": Source(tuple(f"{book}cluster_usage" for book in books), stacked=True),
    }
