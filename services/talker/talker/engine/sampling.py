"""Sampling as a pure function of (logits, seed, frame, codebook): no generator state at all.

A successor that computes the same logits draws the same ids, whoever shares its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

_MASK: Final = (1 << 64) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15


def _mix(value: int) -> int:
    """splitmix64's finaliser (Steele, Lea, Flood 2014), on Python integers."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def key(seed: int, frame: int, codebook: int) -> int:
    """The 64-bit key of one draw. Draws that are not of a codebook use negative numbers."""
    return _mix(_mix(_mix(seed & _MASK) ^ (frame & _MASK)) ^ (codebook & _MASK))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def uniforms(keys: Sequence[int], count: int) -> Tensor:
    """[len(keys), count] float32 in (0, 1), 24 bits each; the same hash, vectorised."""
    row = torch.tensor([_signed(k) for k in keys], dtype=torch.int64)[:, None]
    step = torch.arange(1, count + 1, dtype=torch.int64) * _signed(_GOLDEN)
    value = row + step
    value = (value ^ _shift(value, 30)) * _signed(0xBF58476D1CE4E5B9)
    value = (value ^ _shift(value, 27)) * _signed(0x94D049BB133111EB)
    return (_shift(value, 40).to(torch.float32) + 0.5) * 2.0**-24


def _shift(value: Tensor, bits: int) -> Tensor:
    """A logical right shift; torch's is arithmetic on int64."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def sample(
    logits: Tensor, keys: Sequence[int], *, temperature: Sequence[float], top_k: Sequence[int]
) -> Tensor:
    """Draw one id a row: [rows, vocabulary] float32 -> [rows] int64, by the Gumbel maximum.

    Temperature 0 is greedy; top_k 0 keeps the whole vocabulary.
    """
    logits = _keep_top(logits.float(), top_k)
    scale = torch.tensor(temperature, dtype=torch.float32)[:, None]
    gumbel = -torch.log(-torch.log(uniforms(keys, logits.shape[1])))
    return (logits + gumbel * scale).argmax(-1)


def _keep_top(logits: Tensor, top_k: Sequence[int]) -> Tensor:
    """Everything but each row's `top_k` largest becomes -inf."""
    vocabulary = logits.shape[1]
    kept = [k if 0 < k < vocabulary else vocabulary for k in top_k]
    most = max(kept)
    if min(kept) == vocabulary:
        return logits
    largest = logits.topk(most).values
    least = largest.gather(1, torch.tensor(kept)[:, None] - 1)
    return logits.masked_fill(logits < least, float("-inf"))
