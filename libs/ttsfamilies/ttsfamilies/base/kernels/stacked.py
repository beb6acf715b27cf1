"""A depth transformer's weights as one kernel reads them, and which of them it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Decoder, DecoderConfig, RMSNorm
from ttsfamilies.base.sampling import MOST_IDS

# Columns of a product that one program makes at a time, where a product has few.
NARROW: Final = 16
_WIDE: Final = 32
_STEPS: Final = (64, 32, 16)  # more at once, and registers are spilled


@dataclass(frozen=True)
class Stacked:
    """A depth transformer's weights, all layers of a kind behind each other.

    shares: heads of queries, keys and values. codes: [residuals * vocabulary, outer dim], what a
    code is embedded as; project: [dim, outer dim] and its bias, None for none; heads: [residuals,
    vocabulary, dim]; cosines, sines: [residuals + 1, head_dim / 2]. step, wide: sizes of tiles.
    """

    attention_norm: Tensor
    qkv: Tensor
    q_norm: Tensor
    k_norm: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor
    norm: Tensor
    project: Tensor | None
    project_bias: Tensor | None
    codes: Tensor
    heads: Tensor
    cosines: Tensor
    sines: Tensor
    shares: Sequence[int]
    head_dim: int
    eps: float
    step: int
    wide: int

    @property
    def layers(self) -> int:
        return len(self.qkv)

    @property
    def dim(self) -> int:
        return self.qkv.shape[2]

    @property
    def hidden(self) -> int:
        return self.down.shape[2]

    @property
    def residuals(self) -> int:
        return self.heads.shape[0]

    @property
    def vocabulary(self) -> int:
        return self.heads.shape[1]

    @classmethod
    def of(cls, decoder: Decoder, project: nn.Module, codes: Tensor, heads: Tensor) -> Self:
        """Of a decoder that `fits`; its parameters become parts of what is made here."""
        c, named = decoder.config, _Layers(decoder)
        linear = project if isinstance(project, nn.Linear) else None
        positions = torch.arange(len(heads) + 1, device=codes.device)
        assert isinstance(decoder.norm, RMSNorm)
        return cls(
            named.stacked("attention_norm"),
            named.stacked("attention.qkv"),
            named.stacked("attention.q_norm"),
            named.stacked("attention.k_norm"),
            named.stacked("attention.out"),
            named.stacked("mlp_norm"),
            named.stacked("mlp.gate_up"),
            named.stacked("mlp.down"),
            decoder.norm.weight,
            None if linear is None else linear.weight,
            None if linear is None else linear.bias,
            codes,
            heads,
            *decoder.rope.angles(positions),
            (c.heads, c.kv_heads, c.kv_heads),
            c.head_dim,
            c.eps,
            _step(c, codes.shape[1]),
            _wide(c),
        )


class _Layers:
    def __init__(self, decoder: Decoder) -> None:
        self._blocks = list(decoder.blocks)

    def stacked(self, name: str) -> Tensor:
        """The weights of all layers' modules of this name, which from now on are its parts."""
        found = [block.get_parameter(f"{name}.weight") for block in self._blocks]
        with torch.inference_mode(False), torch.no_grad():
            whole = torch.stack([weight.detach() for weight in found])
            for weight, part in zip(found, whole, strict=True):
                weight.data = part
        return whole


def fits(c: DecoderConfig, outer: int, vocabulary: int, residuals: int) -> bool:
    """Whether the kernel takes a depth transformer of these sizes; outer: what codes are as."""
    powers = c.head_dim // 2, vocabulary, residuals + 1
    plain = c.qk_norm and not (c.qkv_bias or c.out_bias or c.layer_scale or c.rope.interleaved)
    sizes = c.dim, vocabulary, (c.heads + 2 * c.kv_heads) * c.head_dim, c.hidden
    return (
        plain
        and (c.norm, c.mlp) == ("rms", "swiglu")
        and all(size & (size - 1) == 0 for size in powers)
        and all(size % NARROW == 0 for size in sizes)
        and vocabulary <= MOST_IDS
        and _step(c, outer) > 0
    )


def _step(c: DecoderConfig, outer: int) -> int:
    """So many numbers of a sum are read at once; 0 if no size divides all sums."""
    sums = outer, c.dim, c.heads * c.head_dim, c.hidden
    return next((step for step in _STEPS if all(size % step == 0 for size in sums)), 0)


def _wide(c: DecoderConfig) -> int:
    whole = (c.heads + 2 * c.kv_heads) * c.head_dim, c.hidden
    return NARROW if any(size % _WIDE for size in whole) else _WIDE
