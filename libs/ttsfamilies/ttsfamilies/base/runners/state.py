"""Per-slot state on the device: one row of bytes a slot, every field a view of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.wire.fields import Array, Field
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
