"""Sampling as a pure function of (logits, seed, frame, draw): no generator state at all.

A successor that computes the same logits draws the same ids, whoever shares its batch. Everything
is in tensors, so that a device can draw without the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import torch
from torch import Tensor

_GOLDEN: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _shift(value: Tensor, bits: int) -> Tensor:
    """A logical right shift; torch's is arithmetic on int64."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def _mix(value: Tensor) -> Tensor:
    """splitmix64's finaliser (Steele, Lea, Flood 2014); products wrap."""
    value = value + _signed(_GOLDEN)
    value = (value ^ _shift(value, 30)) * _signed(_FIRST)
    value = (value ^ _shift(value, 27)) * _signed(_SECOND)
    return value ^ _shift(value, 31)


def frame_keys(seed: Tensor, frame: Tensor) -> Tensor:
    """What all draws of a frame have in common: [rows] int64 each -> [rows] int64."""
    return _mix(_mix(seed) ^ frame)


def draw_keys(frame_key: Tensor, draw: int | Tensor) -> Tensor:
    """The 64-bit keys of one draw in each row, from `frame_keys`: [rows] int64 -> [rows] int64.

    draw: the codebook, or a negative number for draws that are not of a codebook.
    """
    return _mix(frame_key ^ draw)


def uniforms(key: Tensor, count: int) -> Tensor:
    """[rows] int64 -> [rows, count] float32 in (0, 1), 24 bits each; the same hash."""
    return uniforms_of(key, torch.arange(count, device=key.device))


def uniforms_of(key: Tensor, ids: Tensor) -> Tensor:
    """[rows] int64, ids [ids] or [rows, ids] int64 -> [rows, ids]: those columns of `uniforms`."""
    return _fractions(key[:, None] + (ids + 1) * _signed(_GOLDEN))


def _fractions(value: Tensor) -> Tensor:
    """The hash of sums of key and column."""
    value = (value ^ _shift(value, 30)) * _signed(_FIRST)
    value = (value ^ _shift(value, 27)) * _signed(_SECOND)
    return (_shift(value, 40).to(torch.float32) + 0.5) * 2.0**-24


def gumbel(key: Tensor, count: int) -> Tensor:
    """Noise whose maximum with logits is a draw: [...] int64 -> [..., count] float32."""
    noise = uniforms(key.reshape(-1), count)
    return -torch.log(-torch.log(noise)).view(*key.shape, count)


def gumbels(frame_key: Tensor, draws: Sequence[int], counts: Sequence[int]) -> tuple[Tensor, ...]:
    """`gumbel` of several draws of a frame: [...] int64 -> for each draw [..., its count]."""
    keys = draw_keys(frame_key[..., None], torch.tensor(draws))
    sums = [key[..., None] + _columns(n) for key, n in zip(keys.unbind(-1), counts, strict=True)]
    noise = -torch.log(-torch.log(_fractions(torch.cat(sums, -1))))
    return torch.split(noise, list(counts), -1)


@lru_cache(maxsize=64)
def _columns(count: int) -> Tensor:
    return (torch.arange(count) + 1) * _signed(_GOLDEN)


def sample(
    logits: Tensor, key: Tensor, *, temperature: Tensor, top_k: Tensor | None = None
) -> Tensor:
    """Draw one id a row: [rows, vocabulary] float32 -> [rows] int64, by the Gumbel maximum.

    temperature: [rows] float32, 0 is greedy. top_k: [rows] int64, 0 keeps the whole vocabulary,
    as None does.
    """
    noise = gumbel(key, logits.shape[1])
    return choose(logits, noise, temperature=temperature, top_k=top_k)


def choose(
    logits: Tensor, noise: Tensor, *, temperature: Tensor, top_k: Tensor | None = None
) -> Tensor:
    """`sample` with noise at hand, [rows, vocabulary] from `gumbel`."""
    logits, noise = logits.float(), noise * temperature[:, None]
    chosen = (logits + noise).argmax(-1)
    if top_k is None or _among(logits, chosen, top_k):
        return chosen
    return (keep_top(logits, top_k) + noise).argmax(-1)


def _among(logits: Tensor, chosen: Tensor, top_k: Tensor) -> bool:
    """Whether each row's id is among its `top_k` largest. Most are; finding those takes long."""
    above = (logits > logits.gather(1, chosen[:, None])).sum(-1)
    return bool(((top_k < 1) | (above < top_k)).all())


def keep_top(logits: Tensor, top_k: Tensor) -> Tensor:
    """Everything but each row's `top_k` largest becomes -inf."""
    vocabulary = logits.shape[1]
    kept = torch.where((top_k > 0) & (top_k < vocabulary), top_k, vocabulary)
    most = int(kept.max())
    if int(kept.min()) == vocabulary:
        return logits
    largest = logits.topk(most).values
    least = largest.gather(1, kept[:, None] - 1)
    return logits.masked_fill(logits < least, float("-inf"))
