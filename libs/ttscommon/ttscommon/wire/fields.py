"""Shapes and types of a tensor's row: frames, what is logged with them, state per slot, silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ttscommon.wire.errors import MalformedMessage

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


class Derived(NamedTuple):
    """What a request's recordings came to: of its reference, and of each of its turns.

    None where there is no recording.
    """

    reference: Arrays | None = None
    turns: Sequence[Arrays | None] = ()


NOTHING: Final = Derived()
"""Of a request without recordings."""


@dataclass(frozen=True)
class Field:
    """Shape and dtype ("i2", "f4", ...) of one row. Ids lie in 0 .. `limit` - 1."""

    shape: tuple[int, ...] = ()
    dtype: str = "i4"
    limit: int | None = None

    def __post_init__(self) -> None:
        if any(size < 1 for size in self.shape):
            raise ValueError("dimensions are positive")
        if self.limit is not None and np.dtype(self.dtype).kind not in "iu":
            raise ValueError("only integers have a limit")

    @property
    def size(self) -> int:
        """Numbers in a row."""
        return prod(self.shape)

    def zeros(self, rows: int) -> Array:
        return np.zeros((rows, *self.shape), self.dtype)

    def checked(self, name: str, array: Array) -> Array:
        """`array` [rows, *shape] as this dtype; raises MalformedMessage for anything else."""
        if array.shape[1:] != self.shape or array.ndim != 1 + len(self.shape) or not len(array):
            raise MalformedMessage(f"{name} of shape {array.shape}, rows of {self.shape} wanted")
        if (array.dtype.kind in "iu") != (np.dtype(self.dtype).kind in "iu"):
            raise MalformedMessage(f"{name} of dtype {array.dtype}, {self.dtype} wanted")
        if self.limit is not None and (array.min() < 0 or array.max() >= self.limit):
            raise MalformedMessage(f"{name} outside 0..{self.limit - 1}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise MalformedMessage(f"{name} holds values that are not finite")
        return array.astype(self.dtype, copy=False)


def checked(fields: Mapping[str, Field], arrays: Arrays) -> dict[str, Array]:
    """The arrays that `fields` name, of one common number of rows; raises MalformedMessage."""
    missing = fields.keys() - arrays.keys()
    if missing:
        raise MalformedMessage(f"a chunk without {', '.join(sorted(missing))}")
    found = {name: field.checked(name, arrays[name]) for name, field in fields.items()}
    if len({len(array) for array in found.values()}) > 1:
        raise MalformedMessage("fields of a chunk differ in their number of frames")
    return found


def rows(arrays: Arrays) -> int:
    """The common number of rows; 0 without any array."""
    return len(next(iter(arrays.values()))) if arrays else 0


def empty(fields: Mapping[str, Field]) -> dict[str, Array]:
    """No row of each field."""
    return {name: field.zeros(0) for name, field in fields.items()}


def cut(arrays: Arrays, start: int, stop: int) -> dict[str, Array]:
    """Rows start .. stop of every array, without a copy."""
    return {name: array[start:stop] for name, array in arrays.items()}


def concatenate(parts: Sequence[Arrays]) -> dict[str, Array]:
    """Join arrays of the same names along their rows."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


SILENT: Final = "silent"
FLAG: Final = Field((), "u1", 2)


def silent(arrays: Arrays) -> Array:
    """[frames] u1, 1 where a frame is silence; raises MalformedMessage.

    A chunk without flags has none: its talker is of another family, or of an older version.
    """
    if SILENT not in arrays:
        return FLAG.zeros(rows(arrays))
    return FLAG.checked(SILENT, arrays[SILENT])
