"""Per-slot state on the device: one row of bytes a slot, every field a view of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.engine.device.launches import InputShapes
from ttscommon.engine.device.transfer import Buffers
from ttscommon.wire.fields import Array, Arrays, Field
from ttsfamilies.base.runners.computation import Branches
from ttsfamilies.base.talker.runner import Row, sequences
from ttsfamilies.base.talker.streams import SlotWriter

_ALIGNMENT: Final = 8
_DTYPES: Final = {
    "u1": torch.uint8,
    "i2": torch.int16,
    "i4": torch.int32,
    "i8": torch.int64,
    "f2": torch.float16,
    "f4": torch.float32,
}


class SlotState:
    """`rows` rows of the fields, and one more that padding reads and writes.

    tensors: [rows + 1, *shape] by field. All fields of a slot lie side by side, so that whatever
    the host changes in a launch can travel as one copy.
    """

    def __init__(self, fields: Mapping[str, Field], rows: int) -> None:
        offsets, width = {}, 0
        for name, field in fields.items():
            offsets[name] = width
            size = field.size * np.dtype(field.dtype).itemsize
            width += -(-size // _ALIGNMENT) * _ALIGNMENT
        self.padding = rows
        self._bytes = torch.zeros(rows + 1, max(width, _ALIGNMENT), dtype=torch.uint8)
        self.tensors: dict[str, Tensor] = {
            name: self._view(field, offsets[name]) for name, field in fields.items()
        }
        self._host: dict[str, Array] = {name: view.numpy() for name, view in self.tensors.items()}

    def _view(self, field: Field, offset: int) -> Tensor:
        size = field.size * np.dtype(field.dtype).itemsize
        rows = self._bytes[:, offset : offset + size].view(_DTYPES[field.dtype])
        return rows.view(len(rows), *field.shape) if field.shape else rows[:, 0]

    def writer(self, slot: int) -> SlotWriter:
        """Writes the slot's row."""
        return partial(self._write, slot)

    def _write(self, slot: int, name: str, value: Any, at: int = 0) -> None:
        array = self._host[name]
        if array.ndim == 1:
            array[slot] = value
        else:
            array[slot, at : at + len(value)] = value


# Branches in a launch: its extra inputs for families whose streams may have two, none for others.


# Names of what is told: a row of all branches' tables for each sequence, and the fields of
# Branches.
_SEQUENCES: Final = "sequences"
_OWNERS: Final = "owners"
_SECOND: Final = "second"


class BranchInputs:
    """branches: most of a stream. padding: the slot of rows that are padding."""

    def __init__(self, branches: int, padding: int) -> None:
        self._branches, self._padding = branches, padding

    def each(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows' `sequences`."""
        return sequences(rows) if self._branches > 1 else rows

    def input_shapes(self, rows: int, tokens: int, most_sequences: int) -> InputShapes:
        """Shapes and types of `arrays`."""
        if self._branches == 1:
            return {}
        sizes = {_SEQUENCES: most_sequences, _OWNERS: tokens, _SECOND: rows}
        return {name: ((size,), "i8") for name, size in sizes.items()}

    def arrays(
        self, rows: Sequence[Row], each: Sequence[Row], tokens: int, most_sequences: int
    ) -> Arrays:
        """Of rows and their sequences, padded to so many tokens and sequences."""
        if self._branches == 1:
            return {}
        known = [row.slot * self._branches + row.branch for row in each]
        padding = [self._padding * self._branches] * (most_sequences - len(known))
        return {
            _SEQUENCES: np.array([*known, *padding]),
            _OWNERS: self._owners(each, tokens),
            _SECOND: _last_of_second(rows, each),
        }

    def of_rows(
        self, rows: Sequence[Row], each: Sequence[Row], most_rows: int, least_tokens: int
    ) -> Branches | None:
        """The same at once, on the CPU, padded to so many."""
        if self._branches == 1:
            return None
        owners = self._owners(each, max(least_tokens, sum(row.plan.count for row in each)))
        second = np.zeros(most_rows, np.int64)
        second[: len(rows)] = _last_of_second(rows, each)
        return Branches(torch.from_numpy(owners), torch.from_numpy(second))

    def of(self, told: Mapping[str, Tensor]) -> Branches | None:
        """Of what was told."""
        return None if self._branches == 1 else Branches(told[_OWNERS], told[_SECOND])

    def tables(self, told: Mapping[str, Tensor], tables: Tensor) -> Tensor:
        """[sequences, blocks] of all slots' tables [slots, branches * blocks]."""
        if self._branches == 1:
            return tables.index_select(0, told["slots"])
        at, branches = told[_SEQUENCES], self._branches
        return tables.view(len(tables), branches, -1)[at // branches, at % branches]

    def _owners(self, each: Sequence[Row], tokens: int) -> Array:
        slots = np.array([row.slot for row in each], np.int64)
        known = slots.repeat([row.plan.count for row in each]) if each else slots
        return np.append(known, np.full(tokens - len(known), self._padding))


def _last_of_second(rows: Sequence[Row], each: Sequence[Row]) -> Array:
    last = np.cumsum([row.plan.count for row in each], dtype=np.int64) - 1
    found = last[: len(rows)].copy()
    found[[row.stream.branches > 1 for row in rows]] = last[len(rows) :]
    return found


# Rows that are computed only so that a product has enough of them.


def padded(x: Tensor, rows: int) -> Tensor:
    """`x` with zeros behind it, to at least `rows` rows."""
    missing = rows - len(x)
    return x if missing <= 0 else torch.cat([x, x.new_zeros(missing, *x.shape[1:])])


# Per-slot state that lives on the device; the host sends what it changes, as one copy a launch.


_WORD: Final = 8


class ResidentState:
    """`rows` rows of the fields, and one more that padding reads and writes.

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
