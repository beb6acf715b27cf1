"""A paged KV cache and the attention over it, on the CPU.

Exactness comes before speed here: a position's result is the same bits whether it was computed
alone, in a prefill, or next to other streams, because a flipped bit may flip a sampled id and
then a successor would say something else than was heard. In a narrow cache, and for heads that it
has vector code for, a compiled loop takes query by query. In any other one the keys and values of
a long prompt are too many for that, and there is a product for each KV head. BLAS keeps the
promise per row for products of at least LEAST_ROWS rows and sums over at most `_SUM_LENGTH` terms,
so longer sums are cut (tests/unit/ttsfamilies/base/runners/test_kv.py holds both ways against every
length).

What a block held before is never seen. In a wide cache its values are cleared when a stream enters
it, because a hidden position has weight 0 there, and 0 times a NaN is a NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.kernels.choice import compiles
from ttscommon.engine.kernels.shares import SHARED_ROWS, in_shares
from ttscommon.engine.nn import ROW_TILE
from ttsfamilies.base.kernels.attention import VECTOR_HEAD
from ttsfamilies.base.runners.computation import Attend
from ttsfamilies.base.talker.base import CacheSpec
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS, blocks_for
from ttsfamilies.base.talker.streams import Row

if TYPE_CHECKING:
    from ttsfamilies.base.kernels.attention_numba import Cached


LEAST_ROWS: Final = ROW_TILE
_SUM_LENGTH: Final = 192
_ONES: Final = 16
_WIDEST_BY_QUERY: Final = 256
"""Of a KV row, of caches that the compiled loop reads."""
# Of a head: on AMD's processors BLAS sums products of fewer columns in another order.
_NARROWEST_BY_HEAD: Final = 16


class PagedCache:
    """K and V of all layers of one cache: [layers, blocks * BLOCK_POSITIONS, width].

    V has columns of ones at its end in a wide cache, so that the softmax's denominator is summed by
    the same product, in the same order, as its numerator.
    """

    def __init__(self, spec: CacheSpec, blocks: int) -> None:
        self.spec = spec
        self.width = spec.kv_heads * spec.head_dim
        self.group = spec.heads // spec.kv_heads
        # Where nothing can be compiled torch multiplies, as it does everywhere else.
        vectors = spec.head_dim == VECTOR_HEAD and compiles()
        narrow = self.width <= _WIDEST_BY_QUERY or spec.head_dim < _NARROWEST_BY_HEAD
        self.by_query = narrow or vectors
        rows = blocks * BLOCK_POSITIONS
        self.keys = torch.zeros(spec.layers, rows, self.width)
        self.values = torch.zeros(spec.layers, rows, self.width + (not self.by_query) * _ONES)
        self.values[:, :, self.width :] = 1.0
        self.key_rows = self.keys.unbind(0)
        self.value_rows = self.values[:, :, : self.width].unbind(0)
        self._layouts: dict[tuple[int, int], _Layout] = {}

    def layout(self, row: Row) -> _Layout:
        """Where the row's positions lie; remembered, as they lie there for many launches."""
        blocks, sequence = list(row.blocks[: blocks_for(row.plan.end)]), (row.slot, row.branch)
        known = self._layouts.get(sequence)
        if known is None or known.blocks != blocks:
            known = self._layouts[sequence] = _Layout(blocks)
        return known

    def attend(self, batch: Sequence[Row]) -> Attend:
        """The attention function of one launch over `batch`; clears the blocks it enters."""
        if self.by_query:
            return AttendsByQuery(self, batch)
        parts = [_Part(self, row) for row in batch]
        return _Batch(self, parts, sum(part.count for part in parts))


class AttendsByQuery:
    """Attention of a launch, query by query."""

    def __init__(self, cache: PagedCache, batch: Sequence[Row]) -> None:
        self._cache = cache
        self._keys, self._values = cache.keys.numpy(), cache.values.numpy()
        layouts = [cache.layout(row).numbers for row in batch]
        plans = [row.plan for row in batch]
        counts = [plan.count for plan in plans]
        self._tokens = sum(counts)
        self._rows = np.concatenate(layouts)
        starts = np.cumsum([0, *map(len, layouts[:-1])])
        self._begins = np.repeat(starts, counts)
        self._ends = np.concatenate([np.arange(plan.start, plan.end) + 1 for plan in plans])
        self._places = self._rows[self._begins + self._ends - 1]

    @property
    def cached(self) -> Cached:
        """For a compiled step, which attends by itself."""
        from ttsfamilies.base.kernels import attention_numba

        where = self._rows, self._begins, self._ends, self._places
        return attention_numba.Cached(self._keys, self._values, *where)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Tokens beyond those of the batch are padding: nothing is stored or computed for them."""
        from ttsfamilies.base.kernels import attention_numba

        attention_numba.store(k.numpy(), self._keys[layer], self._places)
        attention_numba.store(v.numpy(), self._values[layer], self._places)
        queries, cache = np.ascontiguousarray(q), self._cache
        out = np.empty_like(queries)
        cached, rows = (self._keys[layer], self._values[layer]), self._rows

        def some(begin: int, end: int) -> None:
            asked, where = queries[begin:end], (self._begins[begin:end], self._ends[begin:end])
            mixed = out[begin:end]
            attention_numba.attend(
                asked, *cached, rows, *where, cache.spec.sliding_window, cache.group, mixed
            )

        if self._tokens < SHARED_ROWS:
            some(0, self._tokens)
        else:
            in_shares(self._tokens, 1, some)
        out[self._tokens :] = 0.0
        return torch.from_numpy(out)


class _Layout:
    """The cache rows of a table of blocks, and the slice they are if they lie side by side."""

    def __init__(self, blocks: list[int]) -> None:
        self.blocks = blocks
        starts = np.array(blocks)[:, None] * BLOCK_POSITIONS
        self.numbers = (starts + np.arange(BLOCK_POSITIONS)).ravel()
        self.rows = torch.from_numpy(self.numbers)
        first = blocks[0] * BLOCK_POSITIONS
        contiguous = all(b == a + 1 for a, b in pairwise(blocks))
        self.slice = slice(first, first + len(self.rows)) if contiguous else None


class _Batch:
    """Attention of a launch, a product for each KV head of each stream."""

    def __init__(self, cache: PagedCache, parts: Sequence[_Part], tokens: int) -> None:
        self._cache = cache
        self._parts = parts
        self._tokens = tokens
        self._places = torch.cat([part.places for part in parts])

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Tokens beyond those of the batch are padding: nothing is stored or computed for them."""
        cache, tokens = self._cache, self._tokens
        for rows, new in ((cache.key_rows[layer], k), (cache.value_rows[layer], v)):
            rows.index_copy_(0, self._places, first(new, tokens).flatten(1))
        scaled = first(q, tokens) * cache.spec.head_dim**-0.5
        split = torch.split(scaled, [part.count for part in self._parts])
        each = zip(self._parts, split, strict=True)
        return padded(torch.cat([part.by_head(queries, layer) for part, queries in each]), len(q))


class _Part:
    """One row's share of the attention: the cached rows it reads, and its causal mask."""

    def __init__(self, cache: PagedCache, row: Row) -> None:
        self._cache = cache
        self.start, self.count = row.plan.start, row.plan.count
        self._layout = cache.layout(row)
        self.places = self._layout.rows[row.plan.start : row.plan.end]
        self._hidden: dict[int, Tensor] = {}
        entered = self._layout.rows[blocks_for(row.plan.start) * BLOCK_POSITIONS :]
        if len(entered):
            cache.values[:, entered, : cache.width] = 0.0

    def _cached(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of all positions, in order: [positions, width (+ ones)]."""
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        if self._layout.slice:
            return keys[self._layout.slice], values[self._layout.slice]
        return keys.index_select(0, self._layout.rows), values.index_select(0, self._layout.rows)

    def by_head(self, queries: Tensor, layer: int) -> Tensor:
        """[count, heads, head_dim], scaled, to the same; a product for each KV head, of the
        queries that share it.
        """
        size, group = self._cache.spec.head_dim, self._cache.group
        keys, values = self._cached(layer)
        kv_heads, real = self._cache.spec.kv_heads, self.count * group
        apart = queries.view(self.count, kv_heads, group, size).transpose(0, 1)
        rows = apart.reshape(kv_heads, real, size)
        if real < LEAST_ROWS:
            rows = torch.cat([rows, rows[:, :1].expand(-1, LEAST_ROWS - real, -1)], 1)
        parts = [slice(head * size, (head + 1) * size) for head in range(kv_heads)]
        scores = torch.stack([q @ keys[:, part].T for q, part in zip(rows, parts, strict=True)])
        weights = self._weights(scores, group)
        each = zip(weights, parts, strict=True)
        mixed = torch.stack([summed(weight, values[:, part]) for weight, part in each])
        total = summed(weights.flatten(0, 1), values[:, self._cache.width :])[:, :1]
        out: Tensor = (mixed / total.view(kv_heads, -1, 1))[:, :real]
        together = out.reshape(kv_heads, self.count, group, size).transpose(0, 1)
        return together.reshape(queries.shape)

    def _weights(self, scores: Tensor, heads: int) -> Tensor:
        """Softmax without its division, over positions up to each query's own, within its window.

        scores: [..., rows, positions]; rows behind count * heads are padding.
        """
        if self.count == 1:
            scores[..., self.start + 1 :] = float("-inf")
            if sliding_window := self._cache.spec.sliding_window:
                scores[..., : max(0, self.start + 1 - sliding_window)] = float("-inf")
        else:
            hidden = self._beyond(heads, scores.shape[-1])
            scores[..., : len(hidden), :].masked_fill_(hidden, float("-inf"))
            if scores.shape[-2] > len(hidden):
                scores[..., len(hidden) :, :] = 0.0
        return scores.sub_(scores.amax(-1, keepdim=True)).exp_()

    def _beyond(self, heads: int, positions: int) -> Tensor:
        """[count * heads, positions] bool: behind each query's own, or before its window; the
        same in all layers.
        """
        if heads not in self._hidden:
            own = self.start + torch.arange(self.count)[:, None]
            sliding_window = self._cache.spec.sliding_window
            at = torch.arange(positions)
            beyond = at > own
            if sliding_window:
                beyond |= at <= own - sliding_window
            self._hidden[heads] = beyond.repeat_interleave(heads, 0)
        return self._hidden[heads]


def padded(x: Tensor, rows: int) -> Tensor:
    """`x` with zeros behind it, to at least `rows` rows: so that a product has enough of them."""
    missing = rows - len(x)
    return x if missing <= 0 else torch.cat([x, x.new_zeros(missing, *x.shape[1:])])


def first(x: Tensor, rows: int) -> Tensor:
    """The first rows of x. Without a view where that is all: views take as long as small sums."""
    return x if len(x) == rows else x[:rows]


def summed(weights: Tensor, values: Tensor) -> Tensor:
    """weights @ values, its sums cut every `_SUM_LENGTH` terms."""
    if len(values) <= _SUM_LENGTH:
        return weights @ values
    mixed = weights[:, :_SUM_LENGTH] @ values[:_SUM_LENGTH]
    for begin in range(_SUM_LENGTH, len(values), _SUM_LENGTH):
        end = begin + _SUM_LENGTH
        mixed += weights[:, begin:end].contiguous() @ values[begin:end]
    return mixed
