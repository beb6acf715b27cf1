"""Trials of the talker's kernels, with heads as published models have them."""

from __future__ import annotations

from functools import partial
from typing import Final

import torch
from torch import Tensor

from ttscommon.engine.kernels.blocks import HeadRotation
from ttscommon.engine.kernels.trial import Trial, drawn, narrow
from ttsfamilies.base.kernels.attention import (
    attend,
    attend_frame,
    attend_step,
    prompt_tiles,
    rotate_store,
)
from ttsfamilies.base.kernels.slots import (
    NUMBERS,
    REALS,
    embed_codes,
    move_on,
    next_text,
    settings,
)
from ttsfamilies.base.sampling import Noise, Settings, draw_ids
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS

_HEADS: Final = (16, 8, 128)  # of queries, of keys, numbers a head
_STARTS: Final = (0, 37, 250)
_COUNTS: Final = (40, 3, 16)
_BLOCKS: Final = 18  # of each row: more than its positions fill
_VOCABULARY: Final = 3072
# Of sums in another order, and of what is rounded to bfloat16.
_CLOSE: Final = 2e-2


def _cached(where: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Keys, values, and the table of each of _STARTS."""
    rows, (_, kv_heads, dim) = len(_STARTS), _HEADS
    keys, values = drawn(where, 2, rows * _BLOCKS * BLOCK_POSITIONS, kv_heads, dim)
    tables = torch.arange(rows * _BLOCKS, dtype=torch.int32, device=where).view(rows, -1)
    return keys.to(narrow(where)), values.to(narrow(where)), tables


def _step(where: torch.device) -> list[Tensor]:
    keys, values, tables = _cached(where)
    rotation, positions = _rotation(where, len(_STARTS)), torch.tensor(_STARTS, device=where)
    product = drawn(where, len(_STARTS), sum(rotation.shares), _HEADS[2], seed=1).to(keys.dtype)
    told = *rotation.parts(product), keys, values, tables, positions
    most = _BLOCKS * BLOCK_POSITIONS
    return [attend_step(*told, most=most, rotation=rotation), keys, values]


def _prompts(where: torch.device) -> list[Tensor]:
    (keys, values, tables), (heads, _, dim) = _cached(where), _HEADS
    flat = prompt_tiles(list(_STARTS), list(_COUNTS))
    tiles = torch.tensor(flat, dtype=torch.int32, device=where).view(-1, 4)
    q = drawn(where, sum(_COUNTS), heads, dim, seed=1).to(keys.dtype)
    return [attend(q, keys, values, tables, tiles, most=_BLOCKS * BLOCK_POSITIONS)]


def _rotation(where: torch.device, rows: int) -> HeadRotation:
    heads, kv_heads, dim = _HEADS
    angles, weights = drawn(where, rows, dim // 2, seed=2), drawn(where, 2, dim, seed=3)
    return HeadRotation((heads, kv_heads, kv_heads), angles.cos(), angles.sin(), *weights)


def _stored(where: torch.device) -> list[Tensor]:
    heads, kv_heads, dim = _HEADS
    keys, values = torch.zeros(2, 8, kv_heads, dim, dtype=narrow(where), device=where)
    product = drawn(where, 3, heads + 2 * kv_heads, dim).to(keys.dtype)
    places = torch.tensor([5, 0, 2], device=where)
    return [rotate_store(product, _rotation(where, 3), keys, values, places), keys, values]


def _frame(filled: int, new: int, where: torch.device) -> list[Tensor]:
    heads, kv_heads, dim = _HEADS
    keys, values = drawn(where, 2, 2, 16, kv_heads, dim)
    q = drawn(where, 2, new, heads, dim, seed=1)
    k, v = drawn(where, 2, 2, new, kv_heads, dim, seed=4)
    return [attend_frame(q, k, v, keys, values, filled, _rotation(where, new)), keys, values]


def _drawn_ids(where: torch.device) -> list[Tensor]:
    """Ids are one or they are not."""
    rows = torch.arange(8, device=where)
    told = Settings(
        torch.full((8,), 0.9, device=where),
        torch.full((8,), 50, device=where),
        torch.full((8,), 0.8, device=where),
    )
    return list(draw_ids(3 * drawn(where, 8, _VOCABULARY), Noise(rows, rows), 3, told))


def _slots(where: torch.device) -> list[Tensor]:
    """A step's text, input, settings and end, of two slots of three."""
    ids, numbers, reals = (
        torch.arange(3, device=where),
        torch.arange(3 * 8, device=where).view(8, 3),
        drawn(where, 5, 3),
    )
    state = {
        "codes": ids[:, None].repeat(1, 4),
        "seen": torch.zeros(3, _VOCABULARY, dtype=torch.uint8, device=where),
        "text": torch.arange(3 * 9, dtype=torch.int32, device=where).view(3, 9),
        **dict(zip((*NUMBERS, "told", "known", "complete", "over"), numbers, strict=True)),
        **dict(zip(REALS, reals, strict=True)),
    }
    state["over"] = torch.zeros_like(ids)
    slots, samples = ids[:2] + 1, torch.ones(2, dtype=torch.bool, device=where)
    first, others = drawn(where, 3, 64), drawn(where, 9, 64, seed=1)
    text, use = next_text(state, slots, 7)
    heard = embed_codes(state["codes"], first, others, slots)
    found = settings(state, slots)
    logits, codes = drawn(where, 2, _VOCABULARY), ids[1:, None].repeat(1, 4)
    moved = move_on(state, slots, 2, use, samples, logits, codes, 2)
    return [text, use, heard, *found.values(), *moved, *state.values()]


TRIALS: Final = (
    Trial("attention", _step, close=_CLOSE),
    Trial("attention of prompts", _prompts, close=_CLOSE),
    Trial("rotation with store", _stored, close=_CLOSE),
    Trial("attention within a frame", partial(_frame, 3, 1), close=1e-4),
    Trial("attention that begins a frame", partial(_frame, 0, 2), close=1e-4),
    Trial("slots of a step", _slots),
    Trial("draws", _drawn_ids),
)
