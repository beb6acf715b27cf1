"""Per-slot state and paged KV caches of a device, which stay there between launches."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.engine.device.transfer import Buffers
from ttscommon.engine.kernels.blocks import HeadRotation
from ttscommon.wire.fields import Array, Field
from ttsfamilies.base.kernels.attention import attend, attend_step, rotate_store, store
from ttsfamilies.base.runners.computation import Attend
from ttsfamilies.base.talker.base import CacheSpec
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS
from ttsfamilies.base.talker.streams import SlotWriter

_WORD: Final = 8


class ResidentState:
    """`rows` rows of the fields, and one more that padding reads and writes; the host sends what it
    changes, as one copy a launch.

    tensors: [rows + 1, *shape] by field, on the device. Changes travel in words of 8 bytes, taken
    from a mirror of what the host wrote last: a field that the host writes in parts must not be
    written by the device as well.
    """

    def __init__(
        self, fields: Mapping[str, Field], rows: int, device: Device, buffers: Buffers
    ) -> None:
        self.padding = rows
        self._device, self._buffers = device, buffers
        self._fields = dict(fields)
        self._at: dict[str, tuple[int, int]] = {}
        width = 0
        for name, field in fields.items():
            length = field.size * np.dtype(field.dtype).itemsize
            self._at[name] = width, length
            width += -(-length // _WORD) * _WORD
        self._width = max(width, _WORD) // _WORD
        with device.making():
            self._words = torch.zeros(rows + 1, self._width, dtype=torch.int64, device=device.where)
        self._mirror = np.zeros((rows + 1, self._width), np.int64)
        self._host: dict[str, Array] = {name: self._array(name) for name in fields}
        self.tensors: dict[str, Tensor] = {name: self._tensor(name) for name in fields}
        self._changed: list[tuple[int, int]] = []

    def _array(self, name: str) -> Array:
        start, length = self._at[name]
        part = self._mirror.view(np.uint8)[:, start : start + length]
        rows = part.view(self._fields[name].dtype)
        return rows.reshape(len(rows), *self._fields[name].shape)

    def _tensor(self, name: str) -> Tensor:
        (start, length), field = self._at[name], self._fields[name]
        of_type = torch.from_numpy(np.empty(0, field.dtype)).dtype
        rows = self._words.view(torch.uint8)[:, start : start + length].view(of_type)
        return rows.view(len(rows), *field.shape) if field.shape else rows[:, 0]

    def writer(self, slot: int) -> SlotWriter:
        """Writes the slot's row."""
        return partial(self.write, slot)

    def write(self, slot: int, name: str, value: Any, at: int = 0) -> None:
        """See SlotWriter; the device sees it after the next `flush`."""
        array, (start, length) = self._host[name], self._at[name]
        if array.ndim == 1:
            array[slot] = value
            first, last = start, start + length
        else:
            array[slot, at : at + len(value)] = value
            first = start + array[0, :at].nbytes
            last = first + array[slot, at : at + len(value)].nbytes
        row = slot * self._width
        self._changed.append((row + first // _WORD, row + -(-last // _WORD)))

    def flush(self) -> list[Tensor]:
        """Submit what was written since the last time; the buffers used, to be given back."""
        if not self._changed:
            return []
        words = np.concatenate([np.arange(first, last) for first, last in self._changed])
        self._changed = []
        # Sizes that come up again and again keep the number of buffers low.
        count = len(words)
        buffer = self._buffers.take(2 * _WORD * (1 << (count - 1).bit_length()))
        pair = buffer.view(torch.int64)[: 2 * count]
        host: Array = pair.numpy()
        host[:count] = words
        host[count:] = self._mirror.reshape(-1)[words]
        self._device.submit(partial(self._apply, pair, count))
        return [buffer]

    def _apply(self, pair: Tensor, count: int) -> None:
        there = pair.to(self._device.where, non_blocking=True)
        self._words.view(-1).index_copy_(0, there[:count], there[count:])


class DeviceCache:
    """A paged KV cache, and the attention of decode steps and prompts over it.

    K and V of all layers: [layers, rows, kv_heads, head_dim], a row a position of a block.

    One block more than the allocator knows of takes what padding writes.
    """

    def __init__(
        self, spec: CacheSpec, blocks: int, dtype: torch.dtype, where: torch.device
    ) -> None:
        self.reserved, self.sliding_window = blocks, spec.sliding_window
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
            sliding_window=self._cache.sliding_window,
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
        return attend(q, *told, most=self._most, sliding_window=self._cache.sliding_window)
