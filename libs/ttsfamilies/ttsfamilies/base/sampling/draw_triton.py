"""Sampling in one kernel, a program a row: rules, top-k, top-p, keyed noise, the best.

A row's logits stay in registers, and nothing is sorted. Most draws are among the top k before that
is asked for; otherwise its threshold is found in four passes, a byte of floats mapped to integers
of the same order each. That of top-p is found bit by bit, in 32 sums.
"""

from __future__ import annotations

from typing import Final

import triton
import triton.language as tl
from torch import Tensor, empty
from torch import bool as torch_bool
from torch import int64 as torch_int64

from ttsfamilies.base.sampling.noise import Noise
from ttsfamilies.base.sampling.rules import Rules, Settings

_WIDE: Final = 2048

_GOLDEN: tl.constexpr = tl.constexpr(0x9E3779B97F4A7C15)
_FIRST: tl.constexpr = tl.constexpr(0xBF58476D1CE4E5B9)
_SECOND: tl.constexpr = tl.constexpr(0x94D049BB133111EB)
_SIGN: tl.constexpr = tl.constexpr(0x80000000)
_ALL: tl.constexpr = tl.constexpr(0xFFFFFFFF)


@triton.jit
def _finish(value):
    value = (value ^ (value >> 30)) * _FIRST
    value = (value ^ (value >> 27)) * _SECOND
    return value ^ (value >> 31)


@triton.jit
def _mix(value):
    return _finish(value + _GOLDEN)


@triton.jit
def _uniforms(seed, frame, draw, ids):
    key = _mix(_mix(_mix(seed.to(tl.uint64)) ^ frame.to(tl.uint64)) ^ draw.to(tl.uint64))
    value = _finish(key + (ids + 1).to(tl.uint64) * _GOLDEN)
    u = ((value >> 40).to(tl.float32) + 0.5) * 5.9604644775390625e-08
    return tl.minimum(u, 0.999999940395355224609375)  # float32 rounds the greatest up to 1


@triton.jit
def _ordered(x):
    """float32 to uint32 in the same order; both zeros are one."""
    bits = tl.where(x == 0.0, 0.0, x).to(tl.uint32, bitcast=True)
    return tl.where(bits >= _SIGN, bits ^ _ALL, bits | _SIGN)


@triton.jit
def _float(key):
    """The inverse of `_ordered`."""
    bits = tl.where(key >= _SIGN, key ^ _SIGN, key ^ _ALL)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _keep_top(x, count):
    """-inf for everything below the row's `count` largest; 0 < count <= ids."""
    keys = _ordered(x)
    digits = tl.arange(0, 256)
    least = tl.zeros([], tl.uint32)
    wanted = count.to(tl.int32)
    for at in tl.static_range(4):
        digit = ((keys >> (24 - 8 * at)) & 255).to(tl.int32)
        if at == 0:
            found = tl.histogram(digit, 256)
        else:
            found = tl.histogram(digit, 256, mask=(keys >> (32 - 8 * at)) == least)
        no_less = tl.cumsum(found, 0, reverse=True)
        here = tl.max(tl.where(no_less >= wanted, digits, 0), 0)
        wanted -= tl.sum(tl.where(digits > here, found, 0), 0)
        least = (least << 8) | here.to(tl.uint32)
    return tl.where(x >= _float(least), x, float("-inf"))


@triton.jit
def _choose(x, noise, ids, top_k, top_p, temperature, vocabulary, HAS_K, HAS_P):
    """The id of the largest sum of x and noise among those that top-k and top-p leave."""
    chosen = tl.argmax(x + noise, 0)
    limited = False
    if HAS_P:
        limited = (top_p < 1.0) & (temperature > 0.0)
    if HAS_K:
        own = tl.max(tl.where(ids == chosen, x, float("-inf")), 0)
        beyond = tl.sum((x > own).to(tl.int32), 0) >= top_k
        if (top_k > 0) & (top_k < vocabulary) & (beyond | limited):
            x = _keep_top(x, top_k)
            chosen = tl.argmax(x + noise, 0)
    if HAS_P:  # noqa: SIM102 - known when the kernel is compiled
        if limited:
            x = _keep_mass(x, temperature, top_p)
            chosen = tl.argmax(x + noise, 0)
    return chosen


@triton.jit
def _keep_mass(x, temperature, top_p):
    """-inf for the least likely that together hold no more than 1 - top_p."""
    keys = _ordered(x)
    share = tl.exp((x - tl.max(x)) / temperature)
    spare = (1.0 - top_p) * tl.sum(share)
    least = tl.zeros([], tl.uint32)
    bit = least + _SIGN
    for _ in range(32):
        raised = least | bit
        if tl.sum(tl.where(keys < raised, share, 0.0)) <= spare:
            least = raised
        bit = bit >> 1
    return tl.where(keys >= tl.minimum(least, tl.max(keys)), x, float("-inf"))


@triton.jit(do_not_specialize=["draw", "vocabulary", "end", "least_frames"])
def sample_rows(
    logits,
    seeds,
    frames,
    draw,
    temperatures,
    top_ks,
    top_ps,
    seen,
    made,
    penalties,
    suppressed,
    ids_out,
    finite_out,
    vocabulary,
    logits_stride,
    seen_stride,
    end,
    least_frames,
    HAS_RULES: tl.constexpr,
    HAS_TOP_K: tl.constexpr,
    HAS_TOP_P: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    ids = tl.arange(0, BLOCK)
    inside = ids < vocabulary
    x = tl.load(logits + row.to(tl.int64) * logits_stride + ids, mask=inside, other=0.0)
    x = x.to(tl.float32)
    finite = tl.abs(x) < float("inf")
    tl.store(finite_out + row, tl.min(finite.to(tl.int32)) > 0)
    if HAS_RULES:
        known = tl.load(seen + row.to(tl.int64) * seen_stride + ids, mask=inside, other=0) != 0
        penalty = tl.load(penalties + row)
        penalty = tl.where(penalty > 0.0, penalty, 1.0)  # of a row of padding: 0
        x = tl.where(known, tl.where(x < 0, x * penalty, x / penalty), x)
        never = tl.load(suppressed + ids, mask=inside, other=1) != 0
        early = tl.load(made + row) < least_frames
        finite = finite & (never == 0) & ((early & (ids == end)) == 0)
    x = tl.where(inside & finite, x, float("-inf"))
    temperature = tl.load(temperatures + row)
    top_k, top_p = 0, 1.0
    if HAS_TOP_K:
        top_k = tl.load(top_ks + row)
    if HAS_TOP_P:
        top_p = tl.load(top_ps + row)
    u = _uniforms(tl.load(seeds + row), tl.load(frames + row), draw, ids)
    noise = -tl.log(-tl.log(u)) * temperature
    chosen = _choose(x, noise, ids, top_k, top_p, temperature, vocabulary, HAS_TOP_K, HAS_TOP_P)
    tl.store(ids_out + row, chosen.to(tl.int64))


def sample(
    logits: Tensor, noise: Noise, draw: int, settings: Settings, rules: Rules | None
) -> tuple[Tensor, Tensor]:
    """See ttsfamilies.base.sampling.draw.draw_ids; at most MOST_IDS ids."""
    rows, vocabulary = logits.shape
    ids = empty(rows, dtype=torch_int64, device=logits.device)
    finite = empty(rows, dtype=torch_bool, device=logits.device)
    unused = ids
    block = triton.next_power_of_2(vocabulary)
    sample_rows[(rows,)](
        logits,
        noise.seed,
        noise.frame,
        draw,
        settings.temperature,
        unused if settings.top_k is None else settings.top_k,
        unused if settings.top_p is None else settings.top_p,
        unused if rules is None else rules.seen,
        unused if rules is None else rules.made,
        unused if rules is None else rules.penalty,
        unused if rules is None else rules.suppressed,
        ids,
        finite,
        vocabulary,
        logits.stride(0),
        0 if rules is None else rules.seen.stride(0),
        -1 if rules is None else rules.end,
        0 if rules is None else rules.least_frames,
        HAS_RULES=rules is not None,
        HAS_TOP_K=settings.top_k is not None,
        HAS_TOP_P=settings.top_p is not None,
        BLOCK=block,
        num_warps=8 if block >= _WIDE else 4,
    )
    return ids, finite
