"""ONNX files as far as weights need them: tensors and nodes, read and never run.

The format is protobuf (onnx.proto): fields of a number and a type, nested by length. Whatever does
not fit is refused with the name of the file. No torch here.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ttscommon.engine.hub import CheckpointError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES: Final = 10
# onnx.proto's TensorProto.DataType, of those that weights and shapes come in.
_DTYPES: Final[Mapping[int, str]] = {
    1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8", 10: "<f2", 11: "<f8",
}  # fmt: skip
_MODEL_GRAPH: Final = 7
_GRAPH_NODE, _GRAPH_TENSOR = 1, 5
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OP, _NODE_ATTRIBUTE = 1, 2, 3, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_FLOAT, _ATTRIBUTE_INT = 1, 2, 3
_ATTRIBUTE_TENSOR, _ATTRIBUTE_INTS = 5, 8
_DIMS, _DATA_TYPE, _FLOATS, _INTEGERS, _NAME, _RAW, _EXTERNAL = 1, 2, 4, 5, 8, 9, 13
_BYTES_EACH: Final = (2, 3)
_MOST_DIMS: Final = 8
Array = npt.NDArray[Any]


class _Malformed(ValueError):
    """What the file has instead of a message."""


@dataclass(frozen=True)
class Node:
    """An operation. ints: its attributes that are integers, or lists of them. floats: those that
    are one number each. value: of a constant.
    """

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ints: Mapping[str, tuple[int, ...]]
    floats: Mapping[str, float] = field(default_factory=dict)
    value: OnnxTensor | None = None


@dataclass(frozen=True)
class OnnxTensor:
    """A tensor in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: memoryview = field(repr=False)

    def array(self) -> Array:
        """[*shape], a copy."""
        return np.frombuffer(self.data, self.dtype).reshape(self.shape).copy()


@dataclass(frozen=True)
class Graph:
    """A file's tensors by name, and its nodes in order. constants: what nodes give by themselves,
    by the names of their outputs.
    """

    path: Path
    tensors: Mapping[str, OnnxTensor]
    nodes: tuple[Node, ...]
    constants: Mapping[str, OnnxTensor] = field(default_factory=dict)


def read_graph(path: Path) -> Graph:
    """Raises CheckpointError for what is no ONNX file, is cut off, or keeps tensors elsewhere."""
    try:
        with path.open("rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return _graph(path, _only(whole, _MODEL_GRAPH))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except (_Malformed, UnicodeDecodeError, ValueError) as error:
        raise CheckpointError(
            f"{path} is truncated or no ONNX file ({error}): download it again"
        ) from error


def _graph(path: Path, data: memoryview) -> Graph:
    tensors: dict[str, OnnxTensor] = {}
    nodes = []
    for number, value in _fields(data):
        if number == _GRAPH_NODE:
            nodes.append(_node(_bytes(value)))
        elif number == _GRAPH_TENSOR and (tensor := _tensor(_bytes(value))) is not None:
            if tensor.name in tensors:
                raise _Malformed(f"two tensors are called {tensor.name!r}")
            tensors[tensor.name] = tensor
    given = {node.outputs[0]: node.value for node in nodes if node.value and node.outputs}
    return Graph(path, tensors, tuple(nodes), given)


def _node(data: memoryview) -> Node:
    texts: dict[int, list[str]] = {n: [] for n in (_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OP)}
    ints: dict[str, tuple[int, ...]] = {}
    floats: dict[str, float] = {}
    given: OnnxTensor | None = None
    for number, value in _fields(data):
        if number in texts:
            texts[number].append(_text(value))
        elif number == _NODE_ATTRIBUTE:
            name, found = _attribute(_bytes(value))
            if isinstance(found, float):
                floats[name] = found
            elif isinstance(found, tuple):
                ints[name] = found
            else:
                given = found
    name, op = ("".join(texts[number]) for number in (_NODE_NAME, _NODE_OP))
    inputs, outputs = (tuple(texts[number]) for number in (_NODE_INPUT, _NODE_OUTPUT))
    return Node(op, name, inputs, outputs, ints, floats, given)


def _attribute(data: memoryview) -> tuple[str, tuple[int, ...] | float | OnnxTensor | None]:
    name, numbers = "", list[int]()
    other: float | OnnxTensor | None = None
    for number, value in _fields(data):
        if number == _ATTRIBUTE_NAME:
            name = _text(value)
        elif number in (_ATTRIBUTE_INT, _ATTRIBUTE_INTS):
            numbers += _ints(value)
        elif number == _ATTRIBUTE_FLOAT:
            other = float(np.frombuffer(_bytes(value), "<f4")[0])
        elif number == _ATTRIBUTE_TENSOR:
            other = _tensor(_bytes(value))
    return name, tuple(numbers) if other is None else other


def _tensor(data: memoryview) -> OnnxTensor | None:
    """None for a kind of numbers that no weight is made of, such as strings and booleans."""
    dims: list[int] = []
    name, kind, raw, floats = "", 0, memoryview(b""), memoryview(b"")
    for number, value in _fields(data):
        if number == _DIMS:
            dims += _ints(value)
        elif number == _DATA_TYPE:
            (kind,) = _ints(value)
        elif number == _NAME:
            name = _text(value)
        elif number == _RAW:
            raw = _bytes(value)
        elif number == _FLOATS:
            floats = _bytes(value)
        elif number == _INTEGERS and kind in _BYTES_EACH:  # each by itself, as zero points are
            given = np.array(_ints(value), np.int64).astype(_DTYPES[kind])
            raw = memoryview(raw.tobytes() + given.tobytes())
        elif number == _EXTERNAL:
            raise _Malformed(f"{name or 'a tensor'} is kept in another file")
    if kind not in _DTYPES:
        return None
    if len(dims) > _MOST_DIMS or any(size < 0 for size in dims):
        raise _Malformed(f"{name!r} has the shape {dims}")
    found = raw if len(raw) or not len(floats) else floats
    needed = prod(dims) * np.dtype(_DTYPES[kind]).itemsize
    if len(found) != needed:
        # Integers of shapes may be stored one by one; nothing here reads them.
        if np.dtype(_DTYPES[kind]).kind == "i" and not len(raw):
            return None
        raise _Malformed(f"{name!r} has {len(found)} bytes, and needs {needed}")
    return OnnxTensor(name, _DTYPES[kind], tuple(dims), found)


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Numbers and values of a message's fields."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise _Malformed(f"a field of type {kind}")
        if size > end - at:
            raise _Malformed(f"a field of {size} bytes where {end - at} are left")
        yield number, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_VARINT_BYTES):
        if at + index >= len(data):
            raise _Malformed("it ends within a number")
        byte = data[at + index]
        value |= (byte & 127) << (7 * index)
        if byte < 128:
            return value, at + index + 1
    raise _Malformed("a number of more than 64 bits")


def _only(data: memoryview, number: int) -> memoryview:
    found = [value for field_number, value in _fields(data) if field_number == number]
    if len(found) != 1:
        raise _Malformed(f"it has {len(found)} graphs")
    return _bytes(found[0])


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise _Malformed("a number where a message was due")
    return value


def _text(value: int | memoryview) -> str:
    return str(_bytes(value), "utf-8")


def _ints(value: int | memoryview) -> list[int]:
    """One integer, or several packed."""
    if isinstance(value, int):
        return [_signed(value)]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(_signed(number))
    return found


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
