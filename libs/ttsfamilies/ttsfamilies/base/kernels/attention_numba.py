"""Attention over a paged cache on a processor: each query by itself, in one compiled loop.

A query's sums depend on its own positions alone. So it gets the same bits in a step, in a prompt
and beside any other stream, and nothing that a block held before is ever read. For heads of 64 the
sums are written as the vector code that they are, three times as fast as what the compiler makes of
the loops; its order is kept, and so are the bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttscommon.engine.kernels.compiled import (
    INT,
    compiled,
    exp,
    floats,
    intrinsic,
    ints,
    ir,
    part,
    part_as_written,
    strided,
    tuple_of,
    types,
)
from ttscommon.engine.kernels.vectors_numba import (
    FIRST,
    FLOAT,
    INDEX,
    NARROW,
    array_of,
    fused,
    load,
    spread,
    turns,
    vector,
)
from ttscommon.engine.kernels.vectors_numba import store as put
from ttsfamilies.base.kernels.attention import VECTOR_HEAD as HEAD

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
_KIND: Final = vector(FLOAT, NARROW)
_SUMS: Final = 4
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


def _data(context: Any, builder: Any, kind: Any, array: Any, first: Any = FIRST) -> Any:
    """Where an array's number `first` is."""
    return builder.gep(array_of(context, builder, kind, array).data, [first])


def _width(context: Any, builder: Any, kind: Any, cached: Any) -> Any:
    """Numbers of a row of the cache."""
    return builder.extract_value(array_of(context, builder, kind, cached).shape, 1)


def _vectors(builder: Any, at: Any) -> list[Any]:
    """A head's numbers."""
    starts = range(0, HEAD, NARROW)
    return [load(builder, builder.gep(at, [INDEX(one)]), _KIND, 4) for one in starts]


def _added_up(builder: Any, vectors: Sequence[Any]) -> Any:
    """All numbers of four vectors: neighbours first, and then halves of what they give."""

    def plus(a: Any, b: Any) -> Any:
        # A flag of its own keeps numba from giving it those that let the compiler choose the order.
        return builder.fadd(a, b, flags=("nsz",))

    first, second, third, fourth = vectors
    total = plus(plus(first, second), plus(third, fourth))
    half, unknown = NARROW, ir.Constant(_KIND, ir.Undefined)
    while half > 1:
        half //= 2
        places = [lane + half if lane < half else 0 for lane in range(NARROW)]
        upper = ir.Constant(vector(ir.IntType(32), NARROW), places)
        total = plus(total, builder.shuffle_vector(total, unknown, upper))
    return builder.extract_element(total, INDEX(0))


@intrinsic
def _score_of_query(
    _context: Any, query: Any, at: Any, keys: Any, lane: Any, rows: Any, first: Any, scale: Any,
    scores: Any, count: Any,
) -> Any:  # fmt: skip
    """`scores[: count]` of a query, numbers `at` .. `at + HEAD`, and the keys from lane on of so
    many positions, whose rows of the cache are `rows[first:]`.
    """

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kinds, width = signature.args, _width(context, builder, signature.args[2], given[2])
        asked = _vectors(builder, _data(context, builder, kinds[0], given[0], given[1]))
        cached = _data(context, builder, kinds[2], given[2], given[3])
        places = _data(context, builder, kinds[4], given[4], given[5])
        out = _data(context, builder, kinds[7], given[7])

        def turn(position: Any, _old: Any) -> Sequence[Any]:
            row = builder.load(builder.gep(places, [position]))
            key = _vectors(builder, builder.gep(cached, [builder.mul(row, width)]))
            sums = [ir.Constant(_KIND, [0.0] * NARROW)] * _SUMS
            for index, pair in enumerate(zip(asked, key, strict=True)):
                sums[index % _SUMS] = fused(builder, *pair, sums[index % _SUMS])
            scaled = builder.fmul(_added_up(builder, sums), given[6])
            builder.store(scaled, builder.gep(out, [position]))
            return ()

        turns(builder, given[8], (), turn)
        return context.get_dummy_value()

    return types.void(query, at, keys, lane, rows, first, scale, scores, count), code


@intrinsic
def _mix_of_values(
    _context: Any, shares: Any, values: Any, lane: Any, rows: Any, first: Any, out: Any, at: Any,
    count: Any,
) -> Any:  # fmt: skip
    """Numbers `at` .. `at + HEAD` of out: the values from lane on of so many positions, likewise,
    each times its share, added in their order.
    """

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kinds, width = signature.args, _width(context, builder, signature.args[1], given[1])
        parts = _data(context, builder, kinds[0], given[0])
        cached = _data(context, builder, kinds[1], given[1], given[2])
        places = _data(context, builder, kinds[3], given[3], given[4])
        mixed = _data(context, builder, kinds[5], given[5], given[6])

        def turn(position: Any, sums: Sequence[Any]) -> Sequence[Any]:
            row = builder.load(builder.gep(places, [position]))
            value = _vectors(builder, builder.gep(cached, [builder.mul(row, width)]))
            share = spread(builder, builder.load(builder.gep(parts, [position])), NARROW)
            pairs = zip(value, sums, strict=True)
            return [fused(builder, share, one, old) for one, old in pairs]

        nothing = [ir.Constant(_KIND, [0.0] * NARROW)] * (HEAD // NARROW)
        for index, one in enumerate(turns(builder, given[7], nothing, turn)):
            put(builder, one, builder.gep(mixed, [INDEX(index * NARROW)]))
        return context.get_dummy_value()

    return types.void(shares, values, lane, rows, first, out, at, count), code


# As compiled code calls them.
_score: Final[Any] = _score_of_query
_mix: Final[Any] = _mix_of_values


@part_as_written
def _sum(x: Floats, count: int, lanes: Floats) -> np.float32:
    """Of the first numbers, in the order of vectors: four of eight numbers, then one of four, then
    what is left. lanes: room for 32 numbers.
    """
    whole, total = count // 32 * 32, _ZERO
    if whole > 0:
        lanes[:] = _ZERO
        for at in range(0, whole, 32):
            for lane in range(32):
                lanes[lane] += x[at + lane]
        for lane in range(8):
            lanes[lane] = lanes[24 + lane] + (lanes[16 + lane] + (lanes[8 + lane] + lanes[lane]))
        total = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + (
            (lanes[1] + lanes[5]) + (lanes[3] + lanes[7])
        )
    fours = count // 4 * 4
    if fours > whole:
        lanes[0], lanes[1], lanes[2], lanes[3] = total, _ZERO, _ZERO, _ZERO
        for at in range(whole, fours, 4):
            for lane in range(4):
                lanes[lane] += x[at + lane]
        total = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
    for at in range(fours, count):
        total += x[at]
    return total


@part
def _attend_heads(
    queries: Floats,
    keys: Floats,
    values: Floats,
    rows: Ints,
    begins: Ints,
    ends: Ints,
    sliding_window: int,
    group: int,
    out: Floats,
) -> None:
    """`attend` of heads of `HEAD`. Tokens of a sequence take turns at each head, whose keys are in
    the first cache then.
    """
    _, heads, size = queries.shape
    scale, most = np.float32(1.0) / np.sqrt(np.float32(size)), 0
    for token in range(len(ends)):
        most = max(most, ends[token])
    scores, lanes = np.empty(most, np.float32), np.empty(32, np.float32)
    first = 0
    while first < len(ends):
        last = first
        while last < len(ends) and begins[last] == begins[first]:
            last += 1
        for head in range(heads):
            for token in range(first, last):
                seen = max(0, ends[token] - sliding_window) if sliding_window > 0 else 0
                count, where = ends[token] - seen, begins[token] + seen
                at, lane = (token * heads + head) * size, head // group * size
                _score(queries, at, keys, lane, rows, where, scale, scores, count)
                highest = _NOTHING
                for position in range(count):
                    score = scores[position]
                    highest = score if score > highest or score != score else highest
                for position in range(count):
                    scores[position] = exp(scores[position] - highest)
                total = _sum(scores, count, lanes)
                _mix(scores, values, lane, rows, where, out, at, count)
                mixed = out[token, head]
                for place in range(size):
                    mixed[place] /= total
        first = last


@compiled(floats(3), floats(2), floats(2), *3 * (ints(1),), INT, INT, floats(3))
def attend(
    queries: Floats,
    keys: Floats,
    values: Floats,
    rows: Ints,
    begins: Ints,
    ends: Ints,
    sliding_window: int,
    group: int,
    out: Floats,
) -> None:
    """Softmax of q k over the square root of the head's size, times v, for the first tokens.

    queries, out: [tokens, heads, head_dim]. keys, values: rows of the cache. rows: where the
    positions of each sequence lie, one sequence after the other. begins, ends: of each token, where
    its sequence begins in `rows`, and how many positions of it the token sees, the last
    `sliding_window` of them unless that is 0. group: query heads to a KV head.
    """
    _, heads, size = queries.shape
    if size == HEAD:
        _attend_heads(queries, keys, values, rows, begins, ends, sliding_window, group, out)
        return
    scale = np.float32(1.0) / np.sqrt(np.float32(size))
    most = 0
    for token in range(len(ends)):
        most = max(most, ends[token])
    scores = np.empty(most, np.float32)
    for token in range(len(ends)):
        begin, end = begins[token], ends[token]
        first = max(0, end - sliding_window) if sliding_window > 0 else 0
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
