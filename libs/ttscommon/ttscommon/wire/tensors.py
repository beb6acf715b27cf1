"""Arrays as they travel."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.values import Count

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
