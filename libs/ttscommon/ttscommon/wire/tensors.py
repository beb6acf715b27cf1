"""Arrays as they travel, checked before they are allocated, and rows for text."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.structs import Count

MAX_TENSOR_DIMS: Final = 4

_ITEM_SIZE: Final = {"u1": 1, "i2": 2, "i4": 4, "f2": 2, "f4": 4}

Dtype: TypeAlias = Literal["u1", "i2", "i4", "f2", "f4"]


@lru_cache(maxsize=64)
def _name(dtype: np.dtype[Any]) -> str:
    return dtype.newbyteorder("<").str.lstrip("<|")


class Tensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A little-endian, row-major array. `data` is exactly prod(shape) items of `dtype`."""

    dtype: Dtype
    shape: tuple[Count, ...]
    data: bytes

    def __post_init__(self) -> None:
        if len(self.shape) > MAX_TENSOR_DIMS:
            raise ValueError(f"tensor has {len(self.shape)} dimensions, at most {MAX_TENSOR_DIMS}")
        expected = math.prod(self.shape) * _ITEM_SIZE[self.dtype]
        if expected != len(self.data):
            got = len(self.data)
            raise ValueError(f"tensor of shape {self.shape} needs {expected} bytes, got {got}")

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> Tensor:
        """Wrap an array; raises MalformedMessage for a dtype the wire does not carry."""
        dtype = _name(array.dtype)
        if dtype not in _ITEM_SIZE:
            raise MalformedMessage(f"dtype {array.dtype} does not travel on the bus")
        return cls(dtype, tuple(array.shape), np.ascontiguousarray(array).tobytes())  # type: ignore[arg-type]

    def array(self) -> npt.NDArray[Any]:
        """The array, read-only, without a copy."""
        return np.frombuffer(self.data, dtype=f"<{self.dtype}").reshape(self.shape)

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    def rows(self, start: int, stop: int) -> Tensor:
        """Rows start..stop of the first dimension."""
        return Tensor.of(self.array()[start:stop])


MAX_ROWS_BYTES: Final = 256 << 10
"""Of the numbers of one piece."""
MAX_ROW_WIDTH: Final = 16_384
MAX_PLACE: Final = 1 << 20

RowKind: TypeAlias = Literal["said", "context", "media"]
RowDtype: TypeAlias = Literal["bf16", "f2", "f4"]
_STORED: Final = {"bf16": "<u2", "f2": "<f2", "f4": "<f4"}
_AXES: Final = 3

Place: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MAX_PLACE)]


class FloatRows(msgspec.Struct, frozen=True, tag="rows", forbid_unknown_fields=True):
    """Rows of one kind, `shape` [rows, width] of `dtype`, little-endian and row-major.

    kind: "said" are embeddings of what is to be spoken, a row a token; "context" are embeddings of
    what was said before, and "media" hidden states where that is sound or a picture. Context and
    media come before anything said. places: of those two, where each row stands in time, height and
    width, three numbers a row; empty where rows stand one behind the other. crc32: of `data`.
    """

    kind: RowKind
    dtype: RowDtype
    shape: tuple[Count, Count]
    data: bytes
    crc32: int
    places: tuple[Place, ...] = ()

    def __post_init__(self) -> None:
        rows, width = self.shape
        expected = rows * width * np.dtype(_STORED[self.dtype]).itemsize
        if expected != len(self.data) or not rows or not 1 <= width <= MAX_ROW_WIDTH:
            raise ValueError(f"rows of shape {self.shape} need {expected} bytes, and some rows")
        if len(self.data) > MAX_ROWS_BYTES:
            raise ValueError(f"rows of {len(self.data)} bytes, at most {MAX_ROWS_BYTES}")
        if zlib.crc32(self.data) != self.crc32:
            raise ValueError("the rows' checksum is not that of their data")
        if self.places and (len(self.places) != _AXES * rows or self.kind == "said"):
            raise ValueError("places are three numbers for each row of context or media")

    @classmethod
    def of(
        cls,
        kind: RowKind,
        array: npt.NDArray[Any],
        dtype: RowDtype = "f4",
        places: Sequence[Sequence[int]] = (),
    ) -> Self:
        """Rows Float32 [rows, width], rounded to `dtype`; places [rows, 3]. Raises ValueError."""
        data = np.ascontiguousarray(narrowed(array, dtype)).tobytes()
        flat = tuple(int(one) for row in places for one in row)
        rows, width = array.shape
        return cls(kind, dtype, (rows, width), data, zlib.crc32(data), flat)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def stored(self) -> npt.NDArray[Any]:
        """[rows, width] as they travel: bf16 in whole numbers of 16 bits."""
        return np.frombuffer(self.data, _STORED[self.dtype]).reshape(self.shape)

    @property
    def finite(self) -> bool:
        """Whether all are numbers."""
        return bool(np.isfinite(widened(self.stored)).all())

    def part(self, start: int, stop: int) -> FloatRows:
        """Rows start .. stop."""
        data = self.stored[start:stop].tobytes()
        places = self.places[_AXES * start : _AXES * stop]
        shape = (len(self.stored[start:stop]), self.shape[1])
        return FloatRows(self.kind, self.dtype, shape, data, zlib.crc32(data), places)


def widened(stored: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Any `stored` rows as float32."""
    if stored.dtype.kind != "u":
        return stored.astype(np.float32)
    return (stored.astype(np.uint32) << 16).view(np.float32)


def narrowed(array: npt.NDArray[Any], dtype: RowDtype) -> npt.NDArray[Any]:
    """float32 as it is stored; to bf16 the nearest, of two the even one."""
    wide = np.ascontiguousarray(array, np.float32)
    if dtype != "bf16":
        return wide.astype(_STORED[dtype])
    bits = wide.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
