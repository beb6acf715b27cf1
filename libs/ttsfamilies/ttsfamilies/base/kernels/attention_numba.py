"""Attention over a paged cache on a processor: each query by itself, in one compiled loop.

A query's sums depend on its own positions alone. So it gets the same bits in a step, in a prompt
and beside any other stream, and nothing that a block held before is ever read.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttscommon.engine.kernels.compiled import INT, compiled, exp, floats, ints, strided, tuple_of

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class Cached(NamedTuple):
    """A cache as one launch sees it. keys, values: [layers, rows, width]. rows, begins, ends: see
    `attend`. places: [tokens], the row of each token's own position.
    """

    keys: Floats
    values: Floats
    rows: Ints
    begins: Ints
    ends: Ints
    places: Ints


CACHED: Final = tuple_of(Cached, floats(3), floats(3), *4 * (ints(1),))
_NOTHING: Final = np.float32(-np.inf)
_ZERO: Final = np.float32(0.0)


@compiled(strided(floats(3)), floats(2), ints(1))
def store(new: Floats, cached: Floats, places: Ints) -> None:
    """[tokens, kv_heads, head_dim] of the first tokens into rows `places` of the cache."""
    _, heads, size = new.shape
    for token in range(len(places)):
        for head in range(heads):
            for at in range(size):
                cached[places[token], head * size + at] = new[token, head, at]


@compiled(floats(3), floats(2), floats(2), floats(2), floats(2), ints(1), floats(3))
def turn_and_store(
    heads: Floats,
    cosines: Floats,
    sines: Floats,
    keys: Floats,
    values: Floats,
    places: Ints,
    queries: Floats,
) -> None:
    """Of a product [tokens, 3 * heads, head_dim]: keys, turned, and values into the cache, and
    `queries` [tokens, heads, head_dim], turned. Neighbouring channels turn together, by tables of
    [tokens, head_dim / 2].
    """
    count, size = queries.shape[1], queries.shape[2]
    for token in range(len(places)):
        row = places[token]
        for head in range(count):
            for pair in range(size // 2):
                at = 2 * pair
                cosine, sine = cosines[token, pair], sines[token, pair]
                first, second = heads[token, head, at], heads[token, head, at + 1]
                queries[token, head, at] = first * cosine - second * sine
                queries[token, head, at + 1] = first * sine + second * cosine
                first = heads[token, count + head, at]
                second = heads[token, count + head, at + 1]
                keys[row, head * size + at] = first * cosine - second * sine
                keys[row, head * size + at + 1] = first * sine + second * cosine
            for at in range(size):
                values[row, head * size + at] = heads[token, 2 * count + head, at]


@compiled(floats(3), floats(2), floats(2), *3 * (ints(1),), INT, INT, floats(3))
def attend(
    queries: Floats,
    keys: Floats,
    values: Floats,
    rows: Ints,
    begins: Ints,
    ends: Ints,
    reach: int,
    group: int,
    out: Floats,
) -> None:
    """Softmax of q k over the square root of the head's size, times v, for the first tokens.

    queries, out: [tokens, heads, head_dim]. keys, values: rows of the cache. rows: where the
    positions of each sequence lie, one sequence after the other. begins, ends: of each token, where
    its sequence begins in `rows`, and how many positions of it the token sees, the last `reach` of
    them unless that is 0. group: query heads to a KV head.
    """
    _, heads, size = queries.shape
    scale = np.float32(1.0) / np.sqrt(np.float32(size))
    most = 0
    for token in range(len(ends)):
        most = max(most, ends[token])
    scores = np.empty(most, np.float32)
    for token in range(len(ends)):
        begin, end = begins[token], ends[token]
        first = max(0, end - reach) if reach > 0 else 0
        for head in range(heads):
            lane = head // group * size
            highest, query = _NOTHING, queries[token, head]
            for position in range(first, end):
                key = keys[rows[begin + position], lane : lane + size]
                score = _ZERO
                for at in range(size):
                    score += query[at] * key[at]
                score *= scale
                scores[position] = score
                highest = score if score > highest or score != score else highest
            total = _ZERO
            for position in range(first, end):
                scores[position] = exp(scores[position] - highest)
            for position in range(first, end):
                total += scores[position]
            mixed = out[token, head]
            mixed[:] = _ZERO
            for position in range(first, end):
                value = values[rows[begin + position], lane : lane + size]
                share = scores[position]
                for at in range(size):
                    mixed[at] += share * value[at]
            for at in range(size):
                mixed[at] /= total
