"""Trials of the kernels of causal codecs, on streams that begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from ttscommon.engine.kernels.trial import Trial, drawn
from ttscommon.engine.nn import dense_attention
from ttsfamilies.base.codec.kernels.rows import StateRows, UnsettledSum

_RING: Final = 71
_SHAPE: Final = (2, 9, 16, 64)  # rows, steps, heads, numbers a head
_TAIL: Final = 6


def _rows(where: torch.device, steps: int) -> StateRows:
    slots = torch.tensor([1, 0], device=where)
    return StateRows(slots, torch.ones_like(slots).bool(), torch.full_like(slots, steps))


def _queries(where: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = drawn(where, 3, *_SHAPE)
    return q, k, v


def _ring(where: torch.device) -> Sequence[Tensor]:
    from ttsfamilies.base.codec.kernels.ring_triton import attend_ring

    rows, steps, heads, dim = _SHAPE
    keys, values = drawn(where, 2, rows + 1, _RING, heads, dim, seed=1)
    begin = torch.zeros(rows, dtype=torch.int64, device=where)
    q, k, v = _queries(where)
    return [attend_ring(q, k, v, keys, values, _rows(where, steps), begin)]


def _ring_twin(where: torch.device) -> Sequence[Tensor]:
    steps = _SHAPE[1]
    visible = torch.ones(steps, steps, dtype=torch.bool, device=where).tril()
    q, k, v = _queries(where)
    return [dense_attention(q, k, v, visible)]


def _waves(where: torch.device) -> tuple[UnsettledSum, tuple[Tensor, Tensor]]:
    x, added = drawn(where, 2, 2, 48, 40)
    bias, other, alpha, inverse = drawn(where, 4, 48, seed=1)
    return UnsettledSum(x, bias, added, other), (alpha.exp(), inverse.exp())


def _behind(where: torch.device) -> Sequence[Tensor]:
    from ttsfamilies.base.codec.kernels.behind_triton import put_behind

    told, snake = _waves(where)
    tails = drawn(where, 3, 48, _TAIL, seed=2)
    out, summed = put_behind(told, tails, _rows(where, 40), 1, snake, keep=True)
    return out, summed, tails[:2]


def _behind_twin(where: torch.device) -> Sequence[Tensor]:
    told, (alpha, inverse) = _waves(where)
    assert told.added is not None
    assert told.bias is not None
    assert told.added_bias is not None
    summed = told.x + told.added + (told.bias + told.added_bias)[:, None]
    waved = summed + (summed * alpha[:, None]).sin().square() * inverse[:, None]
    out = torch.nn.functional.pad(waved, (_TAIL, 0))
    return out, summed, waved[:, :, -_TAIL:].flip(0)


def _convolution(where: torch.device) -> Sequence[Tensor]:
    from ttsfamilies.base.codec.kernels.convolve_triton import convolve

    x, weight = drawn(where, 2, 96, 60), drawn(where, 96, 96, 7, seed=1) / 26
    return [convolve(x, weight.permute(2, 0, 1).contiguous(), 9)]


def _convolution_twin(where: torch.device) -> Sequence[Tensor]:
    x, weight = drawn(where, 2, 96, 60), drawn(where, 96, 96, 7, seed=1) / 26
    return [torch.nn.functional.conv1d(x, weight, dilation=9)]


# Of those who ask for it.
CONVOLUTION: Final = Trial("convolution", _convolution, _convolution_twin, close=1e-4)
TRIALS: Final = (
    Trial("the codec's attention", _ring, _ring_twin, close=1e-4),
    Trial("the codec's tails and Snakes", _behind, _behind_twin, close=1e-4),
)
