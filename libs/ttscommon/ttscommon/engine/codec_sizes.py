"""Sizes of DAC and Mimi, as transformers writes them, and sizes that are impossible. No torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from math import prod
from pathlib import Path
from typing import Any, Final, Literal

from ttscommon.engine.checkpoint import checked_config

# Beyond everything that is published, and little enough to be described without weights.
_MOST: Final = 1 << 20
_MOST_LAYERS: Final = 512


def size_problems(part: Any) -> list[str]:
    """What is wrong with the numbers of a dataclass of sizes, by their names.

    Integers are counts, but for names that end in `_id`; floats are positive and finite.
    """
    return [
        f"{field.name} is {value}, not {wanted}"
        for field in fields(part)
        if not field.name.endswith("_id")
        for value in _numbers(getattr(part, field.name))
        if (wanted := _unlike(field.name, value))
    ]


def head_problems(heads: int, kv_heads: int, head_dim: int) -> list[str]:
    """What is wrong with the heads of an attention that rotates them."""
    found = []
    if kv_heads < 1 or heads % kv_heads:
        found.append(f"{heads} heads are no multiple of {kv_heads} KV heads")
    if head_dim % 2:
        found.append(f"head_dim {head_dim} is odd, and cannot be rotated")
    return found


def scaling_problems(scaling: dict[str, Any] | None) -> list[str]:
    """Rotations other than plain ones, under either name that files have for their kind."""
    told = scaling or {}
    kinds = {str(told[key]) for key in ("rope_type", "type") if key in told}
    return [f"rope_scaling {told} is not served"] if kinds - {"default"} else []


def _numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, tuple):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def _unlike(name: str, value: int | float) -> str:
    """What the value ought to be, if it is not."""
    if isinstance(value, float):
        return "" if math.isfinite(value) and value > 0 else "a positive number"
    most = _MOST_LAYERS if "layers" in name else _MOST
    return "" if 1 <= value <= most else f"from 1 to {most}"


@dataclass(frozen=True)
class DacSizes:
    """config.json; defaults are DacConfig's, which the published codec of 44.1 kHz states anew."""

    encoder_hidden_size: int = 64
    downsampling_ratios: tuple[int, ...] = (2, 4, 8, 8)
    decoder_hidden_size: int = 1536
    upsampling_ratios: tuple[int, ...] = (8, 8, 4, 2)
    n_codebooks: int = 9
    codebook_size: int = 1024
    codebook_dim: int = 8
    sampling_rate: int = 16_000

    @property
    def latent(self) -> int:
        """Channels between encoder, quantizer and decoder."""
        return self.encoder_hidden_size << len(self.downsampling_ratios)

    @property
    def frame_samples(self) -> int:
        return prod(self.upsampling_ratios)

    def problems(self) -> list[str]:
        """What no DAC can have, and kinds of it that are not served."""
        found = size_problems(self)
        if prod(self.downsampling_ratios) != self.frame_samples:
            found.append("encoder and decoder disagree on a frame's samples")
        if any(ratio % 2 for ratio in (*self.upsampling_ratios, *self.downsampling_ratios)):
            found.append("odd strides, whose frames overlap by half a step, are not served")
        if self.decoder_hidden_size % 2 ** len(self.upsampling_ratios):
            found.append(
                f"decoder_hidden_size {self.decoder_hidden_size} cannot be halved so often"
            )
        return found


def load_sizes(folder: Path) -> DacSizes:
    """Read and check a codec's config.json; raises CheckpointError."""
    return checked_config(folder, DacSizes, DacSizes.problems)


LAST_STRIDE = 2


@dataclass(frozen=True)
class MimiSizes:
    """Sizes by their published names; defaults are MimiConfig's.

    last_stride: steps of the transformers in a frame, which no file names.
    """

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
    rope_theta: float | None = None
    sliding_window: int = 250
    codebook_size: int = 2048
    codebook_dim: int = 256
    num_quantizers: int = 32
    num_semantic_quantizers: int = 1
    upsample_groups: int = 512
    sampling_rate: int = 24_000
    trim_right_ratio: float = 1.0
    use_causal_conv: bool = True
    use_conv_shortcut: bool = False
    pad_mode: Literal["constant"] = "constant"
    hidden_act: Literal["gelu"] = "gelu"
    attention_bias: bool = False
    last_stride: int = LAST_STRIDE

    @property
    def frame_samples(self) -> int:
        return self.last_stride * prod(self.upsampling_ratios)

    @property
    def head_size(self) -> int:
        return self.head_dim or self.hidden_size // max(1, self.num_attention_heads)

    @property
    def theta(self) -> float:
        """Of the rotation."""
        return self.rope_theta or 10_000.0

    def problems(self) -> list[str]:
        """What no Mimi can have, and kinds of it that are not served."""
        heads = head_problems(self.num_attention_heads, self.num_key_value_heads, self.head_size)
        found = [*size_problems(self), *heads]
        plain = self.use_causal_conv and not self.use_conv_shortcut and self.trim_right_ratio == 1.0
        if not plain or self.num_semantic_quantizers != 1 or self.audio_channels != 1:
            found.append("this kind of Mimi is not served")
        return found
