"""Tensors drawn from a stated seed, and the files that hold them: safetensors and ONNX.

Every tensor has its own generator, keyed by seed and name, so that neither order nor company
changes it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file
from torch import Tensor

from ttscommon.engine.checkpoint import dump_json
from ttscommon.engine.nn.mimi import quantizer_part
from ttscommon.engine.nn.weights import Net, P, Sources, published_shapes, unfilled

SHARD_BYTES: Final = 2_000_000_000
Floats = npt.NDArray[np.float32]
# Standard deviation and mean of a tensor, by its name and shape.
Spread = Callable[[str, tuple[int, ...]], tuple[float, float]]


def normals(name: str, shape: tuple[int, ...], seed: int) -> Floats:
    """Of a tensor, with a standard deviation of 1."""
    return _generator(name, seed).standard_normal(shape, np.float32)


def _generator(name: str, seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))


def spread_out(name: str, shape: tuple[int, ...], seed: int, spread: Spread) -> Tensor:
    """A tensor of as large numbers as `spread` says."""
    scale, offset = spread(name, shape)
    values = normals(name, shape, seed) * np.float32(scale) + np.float32(offset)
    return torch.from_numpy(values)


def drawn(
    shapes: Mapping[str, tuple[int, ...]],
    seed: int,
    louder: Mapping[str, tuple[int, float]] | None = None,
) -> Iterator[tuple[str, Tensor]]:
    """Tensors by name, float32. louder: rows to multiply, by name."""
    for name in sorted(shapes):
        values = _draw(name, shapes[name], seed)
        if louder and name in louder:
            row, factor = louder[name]
            values[row] *= factor
        yield name, torch.from_numpy(values)


def _draw(name: str, shape: tuple[int, ...], seed: int) -> Floats:
    if name.endswith("initialized"):
        return np.ones(shape, np.float32)
    if name.endswith("cluster_usage"):
        return _generator(name, seed).uniform(0.5, 2.0, shape).astype(np.float32)
    return spread_out(name, shape, seed, _spread).numpy()


def _spread(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """Standard deviation and mean that keep signals of about unit size."""
    if "norm" in name and name.endswith("weight"):
        return 0.1, 1.0
    if name.endswith((".scale", "gamma")):
        return 0.05, 0.3
    if name.endswith((".alpha", ".beta")):
        return 0.2, 0.0
    if name.endswith("bias"):
        return 0.05, 0.0
    if "embed" in name:
        return 0.5, 0.0
    fan_in = int(np.prod(shape[1:]))
    if not name.startswith("decoder.decoder"):
        return fan_in**-0.5, 0.0
    # The waveform decoder only ever adds: kept quiet, so that its samples stay within -1..1.
    transposed, last = ".block.1.conv" in name, shape[0] == 1
    return (1.0 if last else 0.56) * (2 * shape[0] if transposed else fan_in) ** -0.5, 0.0


def drawn_sound(name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    """A tensor of a DAC. Signals keep about their size: samples stay within -1..1 without
    all being near either.
    """
    values = torch.from_numpy(normals(name, shape, seed))
    if name.endswith("alpha"):
        return 1 + 0.2 * values
    if name.endswith("bias"):
        return 0.05 * values
    if name.endswith(("codebook.weight", "codebook.embed")):
        return values
    # A step of a transposed convolution is the sum of two taps.
    fan_in = 2 * shape[0] if ".conv_t1." in name else prod(shape[1:])
    scale: float = 0.6 * fan_in**-0.5
    return values * scale


def shapes_of(
    sources: Callable[[Net], Sources], kind: Callable[P, Net], *args: P.args, **kwargs: P.kwargs
) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors that a network made of these arguments is published as."""
    net = unfilled(kind, *args, **kwargs)
    return published_shapes(net, sources(net))


def codebook_flags(theirs: str, codebooks: int) -> dict[str, tuple[int, ...]]:
    """Of a Mimi's encoder: that each codebook was trained, which no decoder reads."""
    counts = (("semantic", 1), ("acoustic", codebooks - 1))
    return {
        f"{quantizer_part(theirs, kind)}layers.{i}.codebook.initialized": (1,)
        for kind, count in counts
        for i in range(count)
    }


def save(
    folder: Path, tensors: Iterable[tuple[str, Tensor]], shard_bytes: int = SHARD_BYTES
) -> None:
    """model.safetensors, or shards and their index where it grows beyond `shard_bytes`."""
    shards: list[dict[str, Tensor]] = [{}]
    for name, tensor in tensors:
        if _bytes(shards[-1]) > shard_bytes:
            shards.append({})
        shards[-1][name] = tensor.contiguous()
    if len(shards) == 1:
        save_file(shards[0], folder / "model.safetensors", {"format": "pt"})
        return
    weight_map: dict[str, Any] = {}
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / file, {"format": "pt"})
        weight_map |= dict.fromkeys(shard, file)
    total = sum(_bytes(shard) for shard in shards)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    dump_json(folder / "model.safetensors.index.json", index)


def _bytes(shard: Mapping[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in shard.values())


# ONNX files (onnx.proto) as exporters write them: tensors, and nodes that name their modules.


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
