"""A paged KV cache on a device, and the attention of decode steps and prompts over it."""

from __future__ import annotations

import torch
from torch import Tensor

from ttscommon.engine.kernels.blocks import HeadRotation
from ttsfamilies.base.kernels.attention import TILE_QUERIES, attend, decode_tiles
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
        page = tables.gather(1, (positions // BLOCK_POSITIONS)[:, None])[:, 0].long()
        places = page * BLOCK_POSITIONS + positions % BLOCK_POSITIONS
        return _Launch(self, tables, decode_tiles(positions), places, 1, most)

    def prompts(self, tables: Tensor, tiles: Tensor, places: Tensor, most: int) -> Attend:
        """For rows of any length; tiles: see `prompt_tiles`; places: [tokens] int64, cache rows."""
        return _Launch(self, tables, tiles, places, TILE_QUERIES, most)


class _Launch:
    def __init__(
        self,
        cache: DeviceCache,
        tables: Tensor,
        tiles: Tensor,
        places: Tensor,
        queries: int,
        most: int,
    ) -> None:
        self._cache, self._tables, self._tiles, self._places = cache, tables, tiles, places
        self._queries, self._most = queries, most

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        store(k, v, *self._of(layer), self._places)
        return self._attended(layer, q)

    def of_product(self, layer: int, heads: Tensor, rotation: HeadRotation) -> Tensor:
        """See AttendsProducts."""
        return self._attended(layer, rotate_store(heads, rotation, *self._of(layer), self._places))

    def _of(self, layer: int) -> tuple[Tensor, Tensor]:
        return self._cache.keys[layer], self._cache.values[layer]

    def _attended(self, layer: int, q: Tensor) -> Tensor:
        return attend(
            *(q, *self._of(layer), self._tables, self._tiles),
            queries=self._queries,
            most=self._most,
            reach=self._cache.reach,
        )
