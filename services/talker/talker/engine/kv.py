"""Paged KV caches and the attention over them, in plain torch.

Exactness comes before speed here: a position's result is the same bits whether it was computed
alone, in a prefill, or next to other streams, because a flipped bit may flip a sampled id and
then a successor would say something else than was heard. BLAS keeps that promise per row for
products of at least `_LEAST_ROWS` rows and sums over at most `_SUM_LENGTH` terms, so queries of
all heads are rows of one product per stream, and longer sums are cut (tests/unit/talker/engine/
test_kv.py holds it against every length).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import torch
from torch import Tensor

from talker.engine.blocks import BLOCK_POSITIONS
from talker.models.base import Attend, CacheSpec, Slice

_LEAST_ROWS: Final = 4
_SUM_LENGTH: Final = 192
_ONES: Final = 16


class PagedCache:
    """K and V of all layers of one cache: [layers, blocks * BLOCK_POSITIONS, width].

    V has columns of ones at its end, so that the softmax's denominator is summed by the same
    product, in the same order, as its numerator.
    """

    def __init__(self, spec: CacheSpec, blocks: int) -> None:
        self.spec = spec
        self.width = spec.kv_heads * spec.head_dim
        rows = blocks * BLOCK_POSITIONS
        self.keys = torch.zeros(spec.layers, rows, self.width)
        self.values = torch.zeros(spec.layers, rows, self.width + _ONES)
        self.values[:, :, self.width :] = 1.0
        group = spec.heads // spec.kv_heads
        owner = torch.arange(spec.heads) // group
        # [heads, kv_heads, 1]: which part of a KV row a query head reads
        self.select = (owner[:, None] == torch.arange(spec.kv_heads)).float()[..., None]
        self.owner = owner

    def attend(self, batch: Sequence[Slice]) -> Attend:
        """The attention function of one step over `batch`."""
        return _Batch(self, batch)


class _Batch:
    def __init__(self, cache: PagedCache, batch: Sequence[Slice]) -> None:
        self._cache = cache
        self._parts: list[_Part] = []
        offset = 0
        for part in batch:
            self._parts.append(_Part(part, offset))
            offset += part.plan.count
        self._places = torch.cat([part.places for part in self._parts])

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        cache = self._cache
        tokens, heads, head_dim = q.shape
        keys, values = cache.keys[layer], cache.values[layer]
        keys.index_copy_(0, self._places, k.reshape(tokens, cache.width))
        values[:, : cache.width].index_copy_(0, self._places, v.reshape(tokens, cache.width))
        spread = (q[:, :, None, :] * cache.select * head_dim**-0.5).reshape(
            tokens * heads, cache.width
        )
        rows = [part.attend(spread, keys, values, heads) for part in self._parts]
        mixed = torch.cat(rows)  # [tokens * heads, width + ones]
        mixed = mixed[:, : cache.width] / mixed[:, cache.width :][:, :1]
        mixed = mixed.view(tokens, heads, cache.spec.kv_heads, head_dim)
        return mixed[:, torch.arange(heads), cache.owner]


class _Part:
    """One slice's share of the attention: the rows it reads, and its causal mask."""

    def __init__(self, part: Slice, offset: int) -> None:
        self.start, self.count = part.plan.start, part.plan.count
        self.offset = offset
        used = -(-part.plan.end // BLOCK_POSITIONS)
        blocks = torch.tensor(part.blocks[:used], dtype=torch.int64)
        self.rows = (blocks[:, None] * BLOCK_POSITIONS + torch.arange(BLOCK_POSITIONS)).reshape(-1)
        self.places = self.rows[part.plan.start : part.plan.end]
        self.contiguous = bool((blocks[1:] == blocks[:-1] + 1).all())

    def attend(self, spread: Tensor, keys: Tensor, values: Tensor, heads: int) -> Tensor:
        """[count * heads, width] queries -> [count * heads, width + ones], not yet divided."""
        query = spread[self.offset * heads : (self.offset + self.count) * heads]
        missing = _LEAST_ROWS - len(query)
        if missing > 0:
            query = torch.cat([query, query[:1].expand(missing, -1)])
        keys, values = self._gather(keys), self._gather(values)
        scores = query @ keys.T
        self._hide_future(scores, heads)
        weights = (scores - scores.amax(-1, keepdim=True)).exp_()
        mixed = weights[:, :_SUM_LENGTH] @ values[:_SUM_LENGTH]
        for first in range(_SUM_LENGTH, len(values), _SUM_LENGTH):
            last = first + _SUM_LENGTH
            mixed += weights[:, first:last].contiguous() @ values[first:last]
        return mixed[: self.count * heads]

    def _gather(self, cached: Tensor) -> Tensor:
        if self.contiguous:
            first = int(self.rows[0])
            return cached[first : first + len(self.rows)]
        return cached.index_select(0, self.rows)

    def _hide_future(self, scores: Tensor, heads: int) -> None:
        if self.count == 1:
            scores[:, self.start + 1 :] = float("-inf")
            return
        position = torch.arange(scores.shape[1])
        visible = position <= (self.start + torch.arange(self.count))[:, None]
        hidden = ~visible.repeat_interleave(heads, 0)
        scores[: len(hidden)].masked_fill_(hidden, float("-inf"))
        scores[len(hidden) :] = 0.0


class PagedCaches:
    """All caches of a model."""

    def __init__(self, specs: Mapping[str, CacheSpec], blocks: int) -> None:
        self._caches = {name: PagedCache(spec, blocks) for name, spec in specs.items()}

    def attend(self, batch: Sequence[Slice]) -> dict[str, Attend]:
        """One attention function for each cache."""
        return {name: cache.attend(batch) for name, cache in self._caches.items()}
