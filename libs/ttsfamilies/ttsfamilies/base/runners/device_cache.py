"""A paged KV cache on a device, and the attention of decode steps and prompts over it."""

from __future__ import annotations

import torch
from torch import Tensor

from ttscommon.engine.kernels.blocks import HeadRotation
from ttsfamilies.base.kernels.attention import attend, attend_step
from ttsfamilies.base.kernels.cache import rotate_store, store
from ttsfamilies.base.runners.computation import Attend
from ttsfamilies.base.talker.base import CacheSpec
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS


class DeviceCache:
    """K and V of all layers: [layers, rows, kv_heads, head_dim], a row a position of a block.

    One block more than the allocator knows of takes what padding writes.
    """

    def __init__(
        self, spec: CacheSpec, blocks: int, dtype: torch.dtype, where: torch.device
    ) -> None:
        self.reserved, self.reach = blocks, spec.reach
        shape = (spec.layers, (blocks + 1) * BLOCK_POSITIONS, spec.kv_heads, spec.head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=where)
        self.values = torch.zeros(shape, dtype=dtype, device=where)

    def decode(self, tables: Tensor, positions: Tensor, most: int) -> Attend:
        """For a token a row at `positions` [rows] int64, over `tables` [rows, blocks] int32."""
        return _Step(self, tables, positions, most)

    def prompts(self, tables: Tensor, tiles: Tensor, places: Tensor, most: int) -> Attend:
        """For rows of any length; tiles: see `prompt_tiles`; places: [tokens] int64, cache rows."""
        return _Prompts(self, tables, tiles, places, most)

    def of(self, layer: int) -> tuple[Tensor, Tensor]:
        return self.keys[layer], self.values[layer]


class _Step:
    def __init__(self, cache: DeviceCache, tables: Tensor, positions: Tensor, most: int) -> None:
        self._cache, self._tables, self._positions, self._most = cache, tables, positions, most

    def __call__(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, rotation: HeadRotation | None = None
    ) -> Tensor:
        return attend_step(
            *(q, k, v, *self._cache.of(layer), self._tables, self._positions),
            most=self._most,
            reach=self._cache.reach,
            rotation=rotation,
        )

    def of_product(self, layer: int, heads: Tensor, rotation: HeadRotation) -> Tensor:
        """See AttendsProducts."""
        q, k, v = rotation.parts(heads)
        return self(layer, q, k, v, rotation)


class _Prompts:
    def __init__(
        self, cache: DeviceCache, tables: Tensor, tiles: Tensor, places: Tensor, most: int
    ) -> None:
        self._cache, self._tables, self._tiles, self._places = cache, tables, tiles, places
        self._most = most

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        store(k, v, *self._cache.of(layer), self._places)
        return self._attended(layer, q)

    def of_product(self, layer: int, heads: Tensor, rotation: HeadRotation) -> Tensor:
        """See AttendsProducts."""
        known = *self._cache.of(layer), self._places
        return self._attended(layer, rotate_store(heads, rotation, *known))

    def _attended(self, layer: int, q: Tensor) -> Tensor:
        told = (*self._cache.of(layer), self._tables, self._tiles)
        return attend(q, *told, most=self._most, reach=self._cache.reach)
