"""ONNX files (onnx.proto) as exporters write them: tensors, and nodes that name their modules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_TENSOR_RAW: Final = 9
_FLOAT, _INTS = 2, 8
_KIND, _FLOAT_KIND, _INTS_KIND = 20, 1, 7


def model(nodes: Iterable[bytes], tensors: Mapping[str, Array]) -> bytes:
    """A whole file. tensors: float32, by the names that nodes call them."""
    graph = b"".join(_message(1, one) for one in nodes)
    graph += b"".join(_message(5, _tensor(name, array)) for name, array in tensors.items())
    opset = _message(8, b"\x10\x11")
    return b"\x08\x08" + _message(7, graph) + opset


def node(
    op: str,
    name: str,
    inputs: Sequence[str],
    ints: Mapping[str, int],
    floats: Mapping[str, float] | None = None,
) -> bytes:
    """An operation with attributes."""
    found = b"".join(_message(1, one.encode()) for one in inputs)
    found += _message(2, f"{name}_output_0".encode())
    found += _message(3, name.encode()) + _message(4, op.encode())
    for key, value in ints.items():
        content = _message(1, key.encode()) + _message(_INTS, _varint(value))
        found += _message(5, content + _number(_KIND, _INTS_KIND))
    for key, real in (floats or {}).items():
        content = _message(1, key.encode()) + bytes([_FLOAT << 3 | 5])
        content += np.float32(real).tobytes() + _number(_KIND, _FLOAT_KIND)
        found += _message(5, content)
    return found


def constant(output: str, array: Array) -> bytes:
    """A tensor as a node that gives it."""
    content = _message(1, b"value") + _message(5, _tensor(output, array)) + _number(_KIND, 4)
    return _message(2, output.encode()) + _message(4, b"Constant") + _message(5, content)


def _tensor(name: str, array: Array) -> bytes:
    dims = b"".join(_number(1, size) for size in array.shape)
    raw = np.ascontiguousarray(array, "<f4").tobytes()
    return dims + b"\x10\x01" + _message(8, name.encode()) + _message(_TENSOR_RAW, raw)


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])
