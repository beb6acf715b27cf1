"""S3 tokenizer and speaker network: published names, small shapes, drawn weights, as ONNX.

The graphs have the nodes that weights are found by, and compute nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.weights import unfilled
from ttsfamilies.base.s3.references import SpeechTokens, TokenSizes
from ttsfamilies.base.s3.speaker import FixedNorm, SpeakerSizes, SpeakerVector
from ttsfamilies.base.synthetic.tensors import Array, constant, drawn, model, node

_TOKENS: Final = TokenSizes(64, 2, 256)
_SPEAKER: Final = SpeakerSizes(4, 8, (2, 1, 2), 4, 8, 4)
_CODEBOOK: Final = "quantizer._codebook.project_down"
# What the exporter of version 2 called tensors whose modules have no names.
_NUMBERED: Final = {
    "encoder.conv1.weight": "onnx::Conv_2216",
    "encoder.conv1.bias": "onnx::Conv_2217",
    "encoder.conv2.weight": "onnx::Conv_2218",
    "encoder.conv2.bias": "onnx::Conv_2219",
    f"{_CODEBOOK}.weight": "onnx::MatMul_2536",
    f"{_CODEBOOK}.bias": "quantizer.project_in.bias",
}


def _drawn(net: nn.Module, seed: int) -> dict[str, Tensor]:
    found = dict(drawn({n: tuple(t.shape) for n, t in net.state_dict().items()}, seed))
    for name, tensor in found.items():
        if name.endswith("running_var"):
            found[name] = 1.0 + tensor.abs()
        elif name.endswith(("ln.weight", "batchnorm.weight")) or "bn" in name.split(".")[-2]:
            found[name] = tensor * 0.1 + (1.0 if name.endswith("weight") else 0.0)
    return found


def write_tokens(path: Path, *, version: int, seed: int = 0) -> None:
    """speech_tokenizer_v2.onnx or _v3.onnx."""
    tensors, layers = _drawn(unfilled(SpeechTokens, _TOKENS), seed), _TOKENS.layers
    if version == 2:
        nodes, stored = _token_nodes(layers, tensors, dict(_NUMBERED), normed=True)
    else:
        nodes, stored = _nodes_v3(layers, tensors)
    path.write_bytes(model(nodes, stored))


def _path(module: str) -> str:
    part = module.removeprefix("encoder.").replace(".mlp.", ".mlp.mlp.")
    head, _, rest = part.partition(".attn")
    inner = f"/attn{rest.replace('.', '/')}" if rest else ""
    if ".mlp.mlp." in head:
        head, _, number = head.partition(".mlp.mlp.")
        inner = f"/mlp/mlp.{number}"
    return f"/{head.replace('.attn', '/attn').replace('.mlp_ln', '/mlp_ln')}{inner}"


Nodes = tuple[list[bytes], dict[str, Array]]


def _nodes_v3(layers: int, tensors: Mapping[str, Tensor]) -> Nodes:
    """Of version 3 some biases are nodes of their own."""
    memory = "blocks.{}.attn.fsmn_block.weight"
    named = {f"encoder.{memory.format(i)}": memory.format(i) for i in range(layers)}
    named[f"{_CODEBOOK}.bias"] = _NUMBERED[f"{_CODEBOOK}.bias"]
    nodes, stored = _token_nodes(layers, tensors, named, normed=False)
    moved = [name for name, array in stored.items() if name.startswith("onnx") and array.ndim == 1]
    constants = [constant(name, stored.pop(name)) for name in moved[::2]]
    return [*constants, *nodes], stored


def _token_nodes(
    layers: int, tensors: Mapping[str, Tensor], names: dict[str, str], *, normed: bool
) -> Nodes:
    stored: dict[str, Array] = {}
    nodes: list[bytes] = []

    def put(name: str, array: Tensor) -> str:
        called = names.get(name) or f"onnx::{len(stored)}"
        stored[called] = array.numpy()
        return called

    def linear(module: str, path: str) -> None:
        weight = put(f"{module}.weight", tensors[f"{module}.weight"].T)
        nodes.append(node("MatMul", f"{path}/MatMul", ["x", weight], {}))
        if f"{module}.bias" in tensors:
            bias = put(f"{module}.bias", tensors[f"{module}.bias"])
            nodes.append(node("Add", f"{path}/Add", [bias, "x"], {}))

    def conv(module: str, path: str) -> None:
        kinds = [k for k in ("weight", "bias") if f"{module}.{k}" in tensors]
        told = [put(f"{module}.{k}", tensors[f"{module}.{k}"]) for k in kinds]
        nodes.append(node("Conv", f"{path}/Conv", ["x", *told], {"strides": 2}))

    def norm(module: str, path: str) -> None:
        weight, bias = (put(f"{module}.{k}", tensors[f"{module}.{k}"]) for k in ("weight", "bias"))
        if normed:
            ints, floats = {"axis": 1}, {"epsilon": 1e-5}
            told = ["x", weight, bias]
            nodes.append(
                node("LayerNormalization", f"{path}/LayerNormalization", told, ints, floats)
            )
        else:
            nodes.append(node("Mul", f"{path}/Mul", ["x", weight], {}))
            nodes.append(node("Add", f"{path}/Add_1", ["x", bias], {}))

    for number in (1, 2):
        conv(f"encoder.conv{number}", f"/conv{number}")
    for layer in range(layers):
        block, path = f"encoder.blocks.{layer}", f"/blocks.{layer}"
        norm(f"{block}.attn_ln", f"{path}/attn_ln")
        for part in ("query", "key", "value", "out"):
            linear(f"{block}.attn.{part}", f"{path}/attn/{part}")
        conv(f"{block}.attn.fsmn_block", f"{path}/attn/fsmn_block")
        norm(f"{block}.mlp_ln", f"{path}/mlp_ln")
        for part in ("0", "2"):
            linear(f"{block}.mlp.{part}", f"{path}/mlp/mlp.{part}")
    linear(_CODEBOOK, "/quantizer/project_in")
    return nodes, stored


def write_speaker(
    path: Path, *, sizes: SpeakerSizes = _SPEAKER, seed: int = 0
) -> dict[str, Tensor]:
    """campplus.onnx, whose norms right behind a convolution are folded into it as exporters do it;
    returns the tensors from before that.
    """
    net = unfilled(SpeakerVector, sizes)
    tensors = _drawn(net, seed)
    stored: dict[str, Array] = {}
    path.write_bytes(model(list(_speaker_nodes(net, tensors, stored)), stored))
    return tensors


def _speaker_nodes(
    net: nn.Module, tensors: Mapping[str, Tensor], stored: dict[str, Array]
) -> Iterator[bytes]:
    folded = {_norm_of(name) for name, m in net.named_modules() if _is_conv(m)} - {""}
    for name, module in net.named_modules():
        if _is_conv(module):
            yield _conv_node(name, tensors, stored)
        elif isinstance(module, FixedNorm) and name not in folded:
            kinds = ("weight", "bias", "running_mean", "running_var")
            for kind in kinds:
                stored[f"{name}.{kind}"] = tensors[f"{name}.{kind}"].numpy()
            told = ["x", *(f"{name}.{kind}" for kind in kinds)]
            yield node("BatchNormalization", f"{_speaker_path(name)}/BatchNormalization", told, {})


def _is_conv(module: nn.Module) -> bool:
    return isinstance(module, nn.Conv1d | nn.Conv2d)


def _conv_node(name: str, tensors: Mapping[str, Tensor], stored: dict[str, Array]) -> bytes:
    weight, bias = tensors[f"{name}.weight"], tensors.get(f"{name}.bias")
    if norm := _norm_of(name):
        plain = torch.ones(len(weight)), torch.zeros(len(weight))
        gain = tensors.get(f"{norm}.weight", plain[0]).double()
        added = tensors.get(f"{norm}.bias", plain[1]).double()
        gain = gain / (tensors[f"{norm}.running_var"].double() + 1e-5).sqrt()
        bias = (added - tensors[f"{norm}.running_mean"].double() * gain).float()
        weight = (weight.double() * gain.view(-1, *[1] * (weight.ndim - 1))).float()
    told = [f"onnx::Conv_{len(stored)}"]
    stored[told[0]] = weight.numpy()
    if bias is not None:
        told.append(f"onnx::Conv_{len(stored)}")
        stored[told[1]] = bias.numpy()
    return node("Conv", f"{_speaker_path(name)}/Conv", ["x", *told], {"strides": 1})


def _norm_of(conv: str) -> str:
    """The norm right behind a convolution, if nothing else hears that."""
    whole, _, last = conv.rpartition(".")
    if conv.startswith("head."):
        return f"{whole}.1" if last == "0" else f"{whole}.{last.replace('conv', 'bn')}"
    if last == "linear1" and "cam_layer" not in conv:
        return f"{whole}.nonlinear2.batchnorm"
    fixed = {
        "xvector.tdnn.linear": "xvector.tdnn.nonlinear.batchnorm",
        "xvector.transit3.linear": "xvector.out_nonlinear.batchnorm",
        "xvector.dense.linear": "xvector.dense.nonlinear.batchnorm",
    }
    return fixed.get(conv, "")


def _speaker_path(module: str) -> str:
    """Parts of a sequence come with its name: `/head/layer1/layer1.0/conv1`."""
    path: list[str] = []
    for part in module.split("."):
        path.append(f"{path[-1]}.{part}" if part.isdigit() else part)
    return "/" + "/".join(path)
