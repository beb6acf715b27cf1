"""S3 tokenizer and speaker network from the files that they are published in.

ONNX files are read by their nodes, whose names are the modules'; exporters' numbers are no names.
Sizes follow from the tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Final, TypeVar

import torch
from torch import Tensor, nn

from ttscommon.engine.hub import CheckpointError
from ttscommon.engine.nn.weights import Tensors, fill, same
from ttscommon.engine.onnx import Graph, Node, read_graph
from ttscommon.engine.onnx_weights import OnnxWeights, module_of, put
from ttsfamilies.base.s3.references import SpeechTokens, TokenSizes
from ttsfamilies.base.s3.speaker import SpeakerSizes, SpeakerVector

Net = TypeVar("Net", bound=nn.Module)
Sizes = TypeVar("Sizes")
Names = Mapping[str, tuple[int, ...]]

_BLOCK: Final = "blocks."
_DIGITS: Final = 8
_CONVOLUTIONS: Final = 2
# Modules of a block that have weights; what else its nodes hold, such as angles, is computed here.
_LEAVES: Final = {"attn_ln", "mlp_ln", "query", "key", "value", "out", "fsmn_block", "0", "2"}
_CODEBOOK: Final = "quantizer._codebook.project_down"
_EPS: Final = 1e-5
# What batch norm computes: (x - mean) / sqrt(variance + eps) * weight + bias.
_UNCHANGED: Final = {"running_mean": 0.0, "running_var": 1.0 - _EPS, "weight": 1.0, "bias": 0.0}


def load_tokens(
    weights: Tensors, device: str, *, prefix: str = "", eps: float = _EPS
) -> SpeechTokens:
    """prefix: of the names. Raises CheckpointError."""
    sizes = _checked(weights, lambda: _token_sizes(weights.shapes, prefix, eps))
    return _filled(SpeechTokens(sizes), weights, device, prefix)


def load_speaker(weights: Tensors, device: str, *, prefix: str = "") -> SpeakerVector:
    """See load_tokens."""
    sizes = _checked(weights, lambda: _speaker_sizes(weights.shapes, prefix))
    return _filled(SpeakerVector(sizes), weights, device, prefix)


def load_published_tokens(path: Path, device: str) -> SpeechTokens:
    """Of speech_tokenizer_v2.onnx or _v3.onnx; raises CheckpointError."""
    graph = read_graph(path)
    graph = replace(graph, tensors={**graph.constants, **graph.tensors})
    norms = [n for n in graph.nodes if n.op == "LayerNormalization" and "attn_ln" in n.name]
    eps = norms[0].floats.get("epsilon", _EPS) if norms else _EPS
    return load_tokens(_token_weights(graph), device, eps=eps)


def load_published_speaker(path: Path, device: str) -> SpeakerVector:
    """Of campplus.onnx; raises CheckpointError."""
    return load_speaker(FoldedNorms(read_graph(path)), device)


def _filled(net: Net, weights: Tensors, device: str, prefix: str) -> Net:
    sources = {name: same(f"{prefix}{name}") for name in net.state_dict()}
    fill(net, sources, weights)
    return net.eval().requires_grad_(False).to(device)


def _checked(weights: Tensors, sizes: Callable[[], Sizes]) -> Sizes:
    try:
        return sizes()
    except (KeyError, ValueError, IndexError) as error:
        raise CheckpointError(
            f"{weights.where('')} is no network that is known here: {error}"
        ) from error


def _count(shapes: Names, pattern: str) -> int:
    number = 0
    while any(name.startswith(pattern.format(number)) for name in shapes):
        number += 1
    return number


def _token_sizes(shapes: Names, prefix: str, eps: float) -> TokenSizes:
    part = f"{prefix}encoder."
    dim = shapes[f"{part}conv1.weight"][0]
    hidden = shapes[f"{part}{_BLOCK}0.mlp.0.weight"][0]
    return TokenSizes(dim, _count(shapes, f"{part}{_BLOCK}{{}}."), hidden, eps)


def _speaker_sizes(shapes: Names, prefix: str) -> SpeakerSizes:
    part = f"{prefix}xvector."
    layer = f"{part}block1.tdnnd1.cam_layer."
    growth, inner, _ = shapes[f"{layer}linear_local.weight"]
    blocks = [f"{part}block{i}.tdnnd" for i in (1, 2, 3)]
    return SpeakerSizes(
        planes=shapes[f"{prefix}head.conv1.weight"][0],
        first=shapes[f"{part}tdnn.linear.weight"][0],
        layers=tuple(
            len({n.removeprefix(b).partition(".")[0] for n in shapes if n.startswith(b)})
            for b in blocks
        ),
        growth=growth,
        inner=inner,
        gate=shapes[f"{layer}linear1.weight"][0],
        vector=shapes[f"{part}dense.linear.weight"][0],
    )


def _token_weights(graph: Graph) -> OnnxWeights:
    found: dict[str, str] = {}
    turned: set[str] = set()
    for module, node in _token_modules(graph):
        for kind, stored in _parts(graph, node):
            put(graph, found, f"{module}.{kind}", stored)
            if node.op == "MatMul":
                turned.add(f"{module}.{kind}")
    return OnnxWeights(graph, found, turned)


def _token_modules(graph: Graph) -> Iterator[tuple[str, Node]]:
    """Nodes with weights, and the modules they are of. The convolutions before the blocks and the
    projection behind them have names of their own in each version: what they compute tells them.
    """
    before = 0
    for node in graph.nodes:
        module = module_of(node)
        if _BLOCK in module and module.rpartition(".")[2] in _LEAVES:
            yield f"encoder.{module[module.index(_BLOCK) :]}", node
        elif node.op == "Conv" and before < _CONVOLUTIONS:
            before += 1
            yield f"encoder.conv{before}", node
        elif _BLOCK not in module and _shapes(graph, node) & _projections(graph):
            yield _CODEBOOK, node


def _shapes(graph: Graph, node: Node) -> set[tuple[int, ...]]:
    return {graph.tensors[name].shape for name in node.inputs if name in graph.tensors}


def _projections(graph: Graph) -> set[tuple[int, ...]]:
    """Shapes of what gives the digits: its matrix, and its bias."""
    wide = {stored.shape[:1] for stored in graph.tensors.values() if len(stored.shape) == 3}
    return {(_DIGITS,), *((*size, _DIGITS) for size in wide)}


def _parts(graph: Graph, node: Node) -> Iterator[tuple[str, str]]:
    """What a node's tensors are: numbers that stand alone, such as an epsilon, are none of them."""
    stored = [n for n in node.inputs if n in graph.tensors and prod(graph.tensors[n].shape) > 1]
    stored = [n for n in stored if graph.tensors[n].dtype.startswith("<f")]
    if node.op in ("Conv", "LayerNormalization"):
        yield from zip(("weight", "bias"), stored, strict=False)
    elif node.op in ("MatMul", "Mul", "Add") and stored:
        yield "bias" if node.op == "Add" else "weight", stored[0]


class FoldedNorms(OnnxWeights):
    """campplus.onnx: a norm right behind a convolution is folded into it, and leaves a bias there.

    Such a norm is read as one that only adds.
    """

    def __init__(self, graph: Graph) -> None:
        found: dict[str, str] = {}
        self._folded: dict[str, str] = {}
        for node in graph.nodes:
            module = module_of(node)
            if node.op == "BatchNormalization":
                for kind, stored in zip(
                    ("weight", "bias", "running_mean", "running_var"), node.inputs[1:], strict=True
                ):
                    put(graph, found, f"{module}.{kind}", stored)
            elif node.op == "Conv":
                put(graph, found, f"{module}.weight", node.inputs[1])
                self._put_bias(graph, found, module, node.inputs[2:])
        super().__init__(graph, found)

    def _put_bias(
        self, graph: Graph, found: dict[str, str], module: str, stored: Sequence[str]
    ) -> None:
        for name in stored:
            norm = _norm_behind(module)
            put(graph, self._folded if norm else found, norm or f"{module}.bias", name)

    @property
    def shapes(self) -> Names:
        folded = {
            f"{norm}.{kind}": self._graph.tensors[stored].shape
            for norm, stored in self._folded.items()
            for kind in _kinds(norm)
        }
        return {**super().shapes, **folded}

    def read(self, name: str) -> Tensor:
        norm, _, kind = name.rpartition(".")
        if norm not in self._folded:
            return super().read(name)
        added = torch.from_numpy(self._graph.tensors[self._folded[norm]].array()).float()
        return -added if kind == "running_mean" else torch.full_like(added, _UNCHANGED[kind])


def _kinds(norm: str) -> Sequence[str]:
    return list(_UNCHANGED)[:2] if norm.startswith("xvector.dense.") else list(_UNCHANGED)


def _norm_behind(conv: str) -> str:
    """The norm that is folded into a convolution; empty where the bias is its own."""
    whole, _, last = conv.rpartition(".")
    if "cam_layer" in conv:
        return ""
    if conv.startswith("head."):
        return f"{whole}.1" if last == "0" else f"{whole}.{last.replace('conv', 'bn')}"
    if whole.startswith("xvector.transit"):
        return "xvector.out_nonlinear.batchnorm"
    return f"{whole}.{'nonlinear2' if last == 'linear1' else 'nonlinear'}.batchnorm"
