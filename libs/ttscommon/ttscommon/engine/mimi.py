"""Sizes of Mimi (Défossez et al., 2024), the codec of CSM and Kyutai's models. No torch.

Qwen3-TTS encodes with it, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from ttscommon.engine.checkpoint_values import head_problems, size_problems

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
