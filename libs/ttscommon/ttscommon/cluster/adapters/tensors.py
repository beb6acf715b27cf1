"""A safetensors file that any client may have uploaded, read without trust in what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

import msgspec
import numpy as np

from ttscommon.wire.errors import InvalidAdapter
from ttscommon.wire.fields import Array

_LENGTH_BYTES: Final = 8
_MOST_HEADER_BYTES: Final = 4 << 20
_MOST_TENSORS: Final = 16_384
_MOST_AXES: Final = 8
_METADATA: Final = "__metadata__"
_TYPES: Final[dict[str, np.dtype[Any]]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}


@dataclass(frozen=True)
class StoredTensor:
    """A tensor where it lies in the file."""

    kind: str
    shape: tuple[int, ...]
    data: memoryview

    def array(self, scale: float = 1.0) -> Array:
        """Its values times `scale`, float32; raises InvalidAdapter for any that is not finite."""
        raw: Array = np.frombuffer(self.data, _TYPES[self.kind])
        if self.kind == "BF16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        with np.errstate(over="ignore"):
            values: Array = raw.astype(np.float32).reshape(self.shape) * np.float32(scale)
        if not np.isfinite(values).all():
            raise InvalidAdapter("the adapter holds values that are no finite numbers")
        return values


def read_tensors(file: bytes) -> dict[str, StoredTensor]:
    """The tensors of a file by name; raises InvalidAdapter for one that is not as it has to be."""
    length = int.from_bytes(file[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + length
    if len(file) < _LENGTH_BYTES or length > _MOST_HEADER_BYTES or start > len(file):
        raise InvalidAdapter("the weights are no safetensors file, or a truncated one")
    header = _header(file[_LENGTH_BYTES:start])
    data = memoryview(file)[start:]
    found, at = {}, 0
    for name, told in sorted(header.items(), key=lambda item: _begin(*item)):
        found[name], at = _tensor(name, told, data, at)
    if at != len(data):
        raise InvalidAdapter("the weights are truncated, or have bytes that belong to no tensor")
    return found


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = msgspec.json.decode(text, type=dict[str, dict[str, Any]])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidAdapter(f"the header of the weights cannot be read: {error}") from error
    header.pop(_METADATA, None)
    if not 0 < len(header) <= _MOST_TENSORS:
        raise InvalidAdapter(f"the weights hold {len(header)} tensors; 1 to {_MOST_TENSORS} do")
    return header


def _begin(name: str, told: Mapping[str, Any]) -> tuple[int, int]:
    match told.get("data_offsets"):
        case [int(begin), int(end)] if 0 <= begin <= end:
            return begin, end
    raise InvalidAdapter(f"{shown(name)} has no place in the weights")


def _tensor(
    name: str, told: Mapping[str, Any], data: memoryview, at: int
) -> tuple[StoredTensor, int]:
    """The tensor that begins at `at`, and where it ends: none overlap and nothing lies between."""
    begin, end = _begin(name, told)
    kind, shape = told.get("dtype"), told.get("shape")
    if kind not in _TYPES:
        known = ", ".join(_TYPES)
        raise InvalidAdapter(f"{shown(name)} is {shown(str(kind))}; {known} are taken")
    if not _is_shape(shape):
        raise InvalidAdapter(f"{shown(name)} has no shape")
    size = _TYPES[kind].itemsize
    for count in shape:
        size *= count
    if begin != at or end > len(data) or size != end - begin:
        raise InvalidAdapter(f"{shown(name)} does not lie where the weights say: they are damaged")
    return StoredTensor(kind, tuple(shape), data[begin:end]), end


def _is_shape(shape: Any) -> TypeGuard[list[int]]:
    """Few axes: a product of a million of them takes minutes."""
    few = isinstance(shape, list) and len(shape) <= _MOST_AXES
    return few and all(type(n) is int and n > 0 for n in shape)


def shown(name: str, most: int = 120) -> str:
    """A name from an upload, fit for a message."""
    return repr(name if len(name) <= most else f"{name[:most]}...")
