"""A runner for many streams of the default voice at once, where only their paths count.

The talker's own keeps each bit the same whatever shares its batch, stream by stream. Here one
product attends for all of them, so that a last bit may differ, and nothing is rendered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ttscommon.wire.fields import Arrays
from ttsfamilies.base.runners.computation import Attend
from ttsfamilies.base.runners.torch_runner import TorchRunner
from ttsfamilies.base.talker.base import CacheSpec
from ttsfamilies.base.talker.runner import Row
from ttsfamilies.vesper.family import Vesper


class RunnerOfMany(TorchRunner):
    """See Runner; `rows`: of the engine's slots."""

    def __init__(self, model: Vesper, rows: int) -> None:
        super().__init__(model, rows, blocks=1, depth=0)
        ((self._name, spec),) = model.spec.caches.items()
        self._dense = _DenseCache(spec, rows, model.spec.max_positions)

    def render(self, raw: Arrays) -> Arrays:
        """No codes, only what chose them."""
        return {"move": raw["move"]}

    def _attend(self, rows: Sequence[Row]) -> dict[str, Attend]:
        return {self._name: _Attending(self._dense, rows)}


class _DenseCache:
    """keys, values: [layers, rows, heads, positions, size]; what is not used takes no memory."""

    def __init__(self, spec: CacheSpec, rows: int, positions: int) -> None:
        shape = (spec.layers, rows, spec.heads, positions, spec.head_dim)
        self.keys, self.values = torch.zeros(shape), torch.zeros(shape)


class _OneEach(NamedTuple):
    """Tokens of a launch of which each stream has one. places: [tokens] in the launch; slots:
    [tokens]; seen: [rows, 1, 1, positions] bool, what the token of each slot attends to.
    """

    places: Tensor
    slots: Tensor
    seen: Tensor


class _Attending:
    """The attention of one launch."""

    def __init__(self, cache: _DenseCache, batch: Sequence[Row]) -> None:
        self._cache = cache
        tokens = [(row.slot, at) for row in batch for at in range(row.plan.start, row.plan.end)]
        self._slots, self._at = torch.tensor(tokens).unbind(1)
        self._end = int(self._at.max()) + 1
        nth = torch.cat([torch.arange(row.plan.count) for row in batch])
        self._tokens = [
            self._one_each((nth == n).nonzero()[:, 0]) for n in range(int(nth.max()) + 1)
        ]

    def _one_each(self, places: Tensor) -> _OneEach:
        slots = self._slots[places]
        own = torch.zeros(self._cache.keys.shape[1], dtype=torch.int64)
        own[slots] = self._at[places]
        return _OneEach(places, slots, (torch.arange(self._end) <= own[:, None])[:, None, None])

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See Attend; tokens beyond those of the batch are padding."""
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        keys[self._slots, :, self._at] = k[: len(self._at)]
        values[self._slots, :, self._at] = v[: len(self._at)]
        out = torch.zeros_like(q)
        for each in self._tokens:
            asked = q.new_zeros(len(keys), *q.shape[1:])
            asked[each.slots] = q[each.places]
            found = nn.functional.scaled_dot_product_attention(
                asked[:, :, None], keys[:, :, : self._end], values[:, :, : self._end], each.seen
            )
            out[each.places] = found[each.slots, :, 0]
        return out
