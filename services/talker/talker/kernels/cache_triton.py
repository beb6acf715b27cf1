"""Rows of a cache, written and moved; one program a token."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def store_rows(
    new_keys,
    new_values,
    keys,
    values,
    places,
    k_stride,
    v_stride,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < WIDTH
    place = tl.load(places + token).to(tl.int64) * WIDTH
    key = tl.load(new_keys + token * k_stride + at, mask=inside)
    tl.store(keys + place + at, key, mask=inside)
    value = tl.load(new_values + token * v_stride + at, mask=inside)
    tl.store(values + place + at, value, mask=inside)


@triton.jit
def move_rows(keys, values, source, target, rows, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    pair, layer = tl.program_id(0), tl.program_id(1).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < WIDTH
    from_row = (layer * rows + tl.load(source + pair)) * WIDTH + at
    to_row = (layer * rows + tl.load(target + pair)) * WIDTH + at
    tl.store(keys + to_row, tl.load(keys + from_row, mask=inside), mask=inside)
    tl.store(values + to_row, tl.load(values + from_row, mask=inside), mask=inside)


def store(k: Tensor, v: Tensor, keys: Tensor, values: Tensor, places: Tensor) -> None:
    """See talker.kernels.cache.store."""
    width = keys[0].numel()
    block = triton.next_power_of_2(width)
    k, v = k.flatten(1), v.flatten(1)
    store_rows[(len(places),)](
        k, v, keys, values, places, k.stride(0), v.stride(0), WIDTH=width, BLOCK=block
    )


def move(keys: Tensor, values: Tensor, source: Tensor, target: Tensor) -> None:
    """See talker.kernels.cache.move."""
    layers, rows = keys.shape[:2]
    width = keys[0, 0].numel()
    block = triton.next_power_of_2(width)
    move_rows[(len(source), layers)](keys, values, source, target, rows, WIDTH=width, BLOCK=block)
