"""Kernels against their twins on the device that is measured."""

from __future__ import annotations

from functools import partial

import torch

from antiphon_bench.gpu.subject import Subject
from ttscommon.engine.kernels.choice import only
from ttsfamilies.base.kernels.attention import attend, attend_step, prompt_tiles

_BLOCKS = 16  # of each of four rows


def attention(subject: Subject, heads: tuple[int, int, int], *, prompt: bool) -> float:
    """Largest difference of an attention, of a step or of prompts, from its twin's.

    heads: query heads, KV heads and numbers a head.
    """
    where, dtype = subject.device.where, subject.dtype
    g = torch.Generator(where).manual_seed(0)
    queries, kv_heads, dim = heads
    starts, counts = ([0, 5, 100, 239], [40, 1, 17, 16]) if prompt else ([0, 17, 100, 255], [1] * 4)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=g, dtype=dtype, device=where)

    rows = 4 * _BLOCKS * 16
    keys, values = draw(rows, kv_heads, dim), draw(rows, kv_heads, dim)
    q = draw(sum(counts), queries, dim)
    tables = torch.randperm(4 * _BLOCKS, generator=g, device=where).view(4, -1).to(torch.int32)
    if prompt:
        flat = torch.tensor(prompt_tiles(starts, counts), dtype=torch.int32, device=where)
        compute = partial(attend, q, keys, values, tables, flat.view(-1, 4))
    else:
        new = draw(4, kv_heads, dim), draw(4, kv_heads, dim)
        positions = torch.tensor(starts, device=where)
        compute = partial(attend_step, q, *new, keys, values, tables, positions)
    one = compute(most=16 * _BLOCKS)
    with only("torch"):
        other = compute(most=16 * _BLOCKS)
    return float((one.float() - other.float()).abs().max())
