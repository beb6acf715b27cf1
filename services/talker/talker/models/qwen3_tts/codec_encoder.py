"""The codec's encoder, for in-context cloning: a waveform to 16 codes a frame of 80 ms.

It is Mimi's (Défossez et al., 2024): a SEANet encoder to 25 Hz, a transformer, a convolution to
12.5 Hz, and split residual quantisation. Always float32. The transformer attends to everything
before, as the official package does: its config's sliding window takes effect under one attention
implementation only, and not under the one that the codec is loaded with.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from ttscommon.engine.checkpoint import CheckpointError, read_json
from ttscommon.engine.checkpoint_values import head_problems, size_problems
from ttscommon.engine.nn import Decoder, DecoderConfig, RopeConfig, dense_attention

FOLDER = "speech_tokenizer"
_USAGE_FLOOR = 1e-5
_LAST_STRIDE = 2


@dataclass(frozen=True)
class EncoderSizes:
    """Sizes of the encoder, by their published names; defaults are MimiConfig's."""

    hidden_size: int = 512
    num_filters: int = 64
    num_residual_layers: int = 1
    upsampling_ratios: tuple[int, ...] = (8, 6, 5, 4)
    kernel_size: int = 7
    last_kernel_size: int = 3
    residual_kernel_size: int = 3
    dilation_growth_rate: int = 2
    compress: int = 2
    audio_channels: int = 1
    num_hidden_layers: int = 8
    intermediate_size: int = 2048
    num_attention_heads: int = 8
    num_key_value_heads: int = 8
    head_dim: int | None = None
    norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    codebook_size: int = 2048
    codebook_dim: int = 256
    num_quantizers: int = 32
    num_semantic_quantizers: int = 1
    use_causal_conv: bool = True
    use_conv_shortcut: bool = False
    pad_mode: Literal["constant"] = "constant"
    hidden_act: Literal["gelu"] = "gelu"
    attention_bias: bool = False

    @property
    def frame_samples(self) -> int:
        return _LAST_STRIDE * prod(self.upsampling_ratios)


@dataclass(frozen=True)
class EncoderConfig:
    """speech_tokenizer/config.json, as far as the encoder goes."""

    encoder_config: EncoderSizes
    encoder_valid_num_quantizers: int
    encode_downsample_rate: int
    input_sample_rate: int
    model_type: str


def load_encoder_config(checkpoint: Path) -> EncoderConfig:
    """Read and check the codec's part of a checkpoint; raises CheckpointError."""
    path = checkpoint / FOLDER / "config.json"
    config = read_json(path, EncoderConfig)
    sizes = config.encoder_config
    if config.model_type != "qwen3_tts_tokenizer_12hz":
        raise CheckpointError(f"{path}: model_type {config.model_type!r} is not served")
    head_dim = sizes.head_dim or sizes.hidden_size // max(1, sizes.num_attention_heads)
    heads = head_problems(sizes.num_attention_heads, sizes.num_key_value_heads, head_dim)
    for wrong in (*size_problems(config), *size_problems(sizes), *heads):
        raise CheckpointError(f"{path}: encoder_config: {wrong}")
    if sizes.frame_samples != config.encode_downsample_rate:
        raise CheckpointError(f"{path}: the ratios do not give encode_downsample_rate")
    if not sizes.use_causal_conv or sizes.use_conv_shortcut or sizes.num_semantic_quantizers != 1:
        raise CheckpointError(f"{path}: this kind of codec encoder is not served")
    return config


def transformer_config(c: EncoderSizes) -> DecoderConfig:
    """The encoder's transformer."""
    return DecoderConfig(
        dim=c.hidden_size,
        layers=c.num_hidden_layers,
        heads=c.num_attention_heads,
        kv_heads=c.num_key_value_heads,
        head_dim=c.head_dim or c.hidden_size // c.num_attention_heads,
        hidden=c.intermediate_size,
        eps=c.norm_eps,
        rope=RopeConfig(theta=c.rope_theta),
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

    def __init__(self, c: EncoderSizes, size: int, dilation: int) -> None:
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


def seanet(c: EncoderSizes) -> nn.Sequential:
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

    def __init__(self, c: EncoderSizes, count: int) -> None:
        super().__init__()
        self.project = nn.Conv1d(c.hidden_size, c.codebook_dim, 1, bias=False)
        self.sums = nn.Parameter(torch.empty(count, c.codebook_size, c.codebook_dim))
        self.usage = nn.Parameter(torch.empty(count, c.codebook_size))

    def forward(self, x: Tensor) -> Tensor:
        """[1, hidden_size, frames] -> [frames, codebooks] int64."""
        rest, codes = self.project(x)[0].T, []
        for entries in self.sums / self.usage.clamp(min=_USAGE_FLOOR)[..., None]:
            codes.append(torch.cdist(rest[None], entries[None])[0].argmin(-1))
            rest = rest - entries[codes[-1]]
        return torch.stack(codes, -1)


class CodecEncoder(nn.Module):
    """Waveforms at 24 kHz to frames of codes."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        c = config.encoder_config
        self.config = config
        self.convolutions = seanet(c)
        self.transformer = Decoder(transformer_config(c))
        self.slow_down = StridedConv1d(
            c.hidden_size, c.hidden_size, 2 * _LAST_STRIDE, stride=_LAST_STRIDE, bias=False,
            edge="replicate",
        )  # fmt: skip
        self.semantic = ResidualQuantizer(c, 1)
        self.acoustic = ResidualQuantizer(c, config.encoder_valid_num_quantizers - 1)

    def latents(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1 -> what is quantised, [1, hidden_size, frames]."""
        x = self.convolutions(wav[None, None]).transpose(1, 2)
        steps = torch.arange(x.shape[1], device=x.device)
        visible = steps <= steps[:, None]
        x = self.transformer(x, steps, lambda _, q, k, v: dense_attention(q, k, v, visible))
        return self.slow_down(x.transpose(1, 2))

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1 -> [frames, codebooks] int64, the last frame maybe partial."""
        x = self.latents(wav)
        return torch.cat((self.semantic(x), self.acoustic(x)), 1)
