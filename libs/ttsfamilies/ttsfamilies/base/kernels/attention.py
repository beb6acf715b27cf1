"""Attention over a paged cache, for decode steps and prompts alike, and within a frame.

On a device compiled, elsewhere in torch's own operations.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from ttscommon.engine.kernels.blocks import HeadRotation
from ttscommon.engine.kernels.choice import use_triton
from ttscommon.engine.nn import dense_attention
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS

# Rows of a paged KV cache, written by number: exact copies in every version.


def store(k: Tensor, v: Tensor, keys: Tensor, values: Tensor, places: Tensor) -> None:
    """Put tokens [tokens, kv_heads, head_dim] at rows `places` [tokens] int64 of one layer.

    keys, values: [rows, kv_heads, head_dim]. Tokens may share a row that is not read.
    """
    keys.index_copy_(0, places, k.to(keys.dtype))
    values.index_copy_(0, places, v.to(values.dtype))


def rotate_store(
    heads: Tensor, rotation: HeadRotation, keys: Tensor, values: Tensor, places: Tensor
) -> Tensor:
    """Rotate a product's queries and keys, and `store` its keys and values.

    heads: [tokens, all heads, head_dim], the others as of `store`. Returns the queries [tokens,
    heads, head_dim], contiguous.
    """
    if use_triton(keys):
        from ttsfamilies.base.kernels import cache_triton

        return cache_triton.rotate_store(heads, rotation, keys, values, places)
    q, k, v = rotation.parts(heads)
    store(rotation.keys(k), v, keys, values, places)
    return rotation.queries(q)


# Attention of new tokens over a paged cache, for decode steps and prompts alike.


# Consecutive tokens of a prompt that one program attends for.
TILE_QUERIES = 16
VECTOR_HEAD = 64
"""Numbers of a head that a processor attends to in vectors."""


def attend_step(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor,
    values: Tensor,
    tables: Tensor,
    positions: Tensor,
    *,
    most: int,
    sliding_window: int = 0,
    rotation: HeadRotation | None = None,
) -> Tensor:
    """Store a token of each row at its position; attention over the row's sequence up to it.

    q: [rows, heads, head_dim]; k, v: [rows, kv_heads, head_dim]; positions: [rows] int64. rotation:
    of q and k before that; None where it is done. The others: see `attend`. Returns q's shape.
    """
    if use_triton(q):
        from ttsfamilies.base.kernels import steps_triton

        parts = steps_triton.parts_for(len(q), keys.shape[1], most, processors(q.device))
        return steps_triton.attend_step(
            *(q, k, v, keys, values, tables, positions, rotation),
            page=BLOCK_POSITIONS,
            parts=parts,
            sliding_window=sliding_window,
        )
    if rotation is not None:
        q, k = rotation.queries(q), rotation.keys(k)
    page = tables.gather(1, (positions // BLOCK_POSITIONS)[:, None])[:, 0].long()
    store(k, v, keys, values, page * BLOCK_POSITIONS + positions % BLOCK_POSITIONS)
    tiles = _of_steps(positions)
    return attend_plain(
        q, keys, values, tables, tiles, queries=1, most=most, sliding_window=sliding_window
    )


def attend(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    tables: Tensor,
    tiles: Tensor,
    *,
    most: int,
    sliding_window: int = 0,
) -> Tensor:
    """Each token of prompts over all positions of its own sequence up to its own.

    q: [tokens, heads, head_dim]; keys, values: [blocks * BLOCK_POSITIONS, kv_heads, head_dim] of
    one layer, the new tokens' own stored already; tables: [rows, blocks] int32, each row's blocks.
    tiles: [tiles, 4] int32: row, first token, tokens (at most TILE_QUERIES, 0 for padding),
    position of the first. most: at least as many positions as any row has. sliding_window: see
    CacheSpec.
    Returns q's shape, zeros for tokens that are in no tile.
    """
    if use_triton(q):
        from ttsfamilies.base.kernels import attention_triton

        told = (q.contiguous(), keys, values, tables, tiles)
        return attention_triton.attend(
            *told, queries=TILE_QUERIES, page=BLOCK_POSITIONS, sliding_window=sliding_window
        )
    told = (q, keys, values, tables, tiles)
    return attend_plain(*told, queries=TILE_QUERIES, most=most, sliding_window=sliding_window)


def attend_plain(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    tables: Tensor,
    tiles: Tensor,
    *,
    queries: int,
    most: int,
    sliding_window: int = 0,
) -> Tensor:
    """What kernels give for tiles of up to `queries` tokens, in float32 and with shapes that hang
    on no value.
    """
    kv_heads, dim = keys.shape[1:]
    row, first, count, position = tiles.long().unbind(1)
    each = torch.arange(queries, device=q.device)
    tokens = (first[:, None] + each).clamp(max=len(q) - 1)
    past = torch.arange(most, device=q.device)
    known = past < (position + count)[:, None]
    page = (past // BLOCK_POSITIONS).clamp(max=tables.shape[1] - 1)
    pages = tables[row][:, page].long()
    cached = torch.where(known, pages * BLOCK_POSITIONS + past % BLOCK_POSITIONS, 0)
    key = torch.where(known[..., None, None], keys[cached].float(), 0)
    value = torch.where(known[..., None, None], values[cached].float(), 0)
    grouped = q[tokens].float().reshape(*tokens.shape, kv_heads, -1, dim) * dim**-0.5
    scores = torch.einsum("tqhgd,tkhd->thgqk", grouped, key)
    own = (position[:, None] + each)[..., None]
    visible = known[:, None] & (past <= own)
    if sliding_window:
        visible = visible & (past > own - sliding_window)
    weights = scores.masked_fill(~visible[:, None, None], float("-inf")).softmax(-1)
    mixed = torch.einsum("thgqk,tkhd->tqhgd", weights, value).flatten(2, 3).to(q.dtype)
    real = (each < count[:, None])[..., None, None]
    # Tokens beyond a tile's count are another row's, or no row's.
    out = q.new_zeros(len(q) + 1, *q.shape[1:])
    places = torch.where(real[..., 0, 0], tokens, len(q))
    return out.index_copy(0, places.flatten(), mixed.flatten(0, 1))[: len(q)]


@cache
def processors(device: torch.device) -> int:
    """Multiprocessors of a device."""
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _of_steps(positions: Tensor) -> Tensor:
    """One token a row, at these positions [rows] -> tiles [rows, 4] int32."""
    rows = torch.arange(len(positions), dtype=torch.int32, device=positions.device)
    return torch.stack((rows, rows, torch.ones_like(rows), positions.to(torch.int32)), 1)


def prompt_tiles(starts: list[int], counts: list[int]) -> list[int]:
    """Rows of `counts` tokens one after the other, from positions `starts` on: 4 numbers a tile."""
    flat, token = [], 0
    for row, (start, count) in enumerate(zip(starts, counts, strict=True)):
        for done in range(0, count, TILE_QUERIES):
            flat += [row, token + done, min(TILE_QUERIES, count - done), start + done]
        token += count
    return flat


# Attention within a frame: a depth transformer's, over the few positions of one frame.


def attend_frame(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    keys: Tensor,
    values: Tensor,
    filled: int,
    rotation: HeadRotation | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Store k and v behind `filled` positions; attention of q over all positions up to its own.

    q: [rows, new, heads, head_dim]; k, v: [rows, new, kv_heads, head_dim];
    keys, values: [rows, positions, kv_heads, head_dim] float32, of any content behind `filled`.
    rotation: of q and k before that, its angles those of the `new` positions; None where it is
    done. Returns [rows, new, heads, head_dim] in `dtype`, or v's type.
    """
    if use_triton(q):
        from ttsfamilies.base.kernels import frame_triton

        return frame_triton.attend_frame(
            *(q, k, v, keys, values, filled, rotation), dtype or v.dtype
        )
    if rotation is not None:
        q, k = rotation.queries(q), rotation.keys(k)
    end = filled + k.shape[1]
    keys[:, filled:end], values[:, filled:end] = k, v
    visible = None
    if q.shape[1] > 1:
        visible = torch.ones(end, end, dtype=torch.bool, device=q.device).tril()[filled:]
    return dense_attention(q, keys[:, :end], values[:, :end], visible).to(dtype or v.dtype)
