"""An ONNX file's tensors by the names of the modules they belong to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from torch import Tensor

from ttscommon.engine.hub import CheckpointError
from ttscommon.engine.onnx import Graph, Node


class OnnxWeights:
    """See engine.nn.weights.Tensors.

    named: the file's own names by the modules'. turned: modules' names of matrices that are stored
    as [inputs, outputs].
    """

    def __init__(
        self, graph: Graph, named: Mapping[str, str], turned: Collection[str] = ()
    ) -> None:
        self._graph, self._named, self._turned = graph, named, turned

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        found = {name: self._graph.tensors[stored].shape for name, stored in self._named.items()}
        return found | {name: found[name][::-1] for name in self._turned}

    def read(self, name: str) -> Tensor:
        """One tensor in float32."""
        tensor = torch.from_numpy(self._graph.tensors[self._named[name]].array()).float()
        if not torch.isfinite(tensor).all():
            raise CheckpointError(
                f"{self._graph.path}: {name} holds values that are no finite numbers"
            )
        return tensor.T if name in self._turned else tensor

    def where(self, name: str) -> Path:
        del name
        return self._graph.path


def module_of(node: Node) -> str:
    """The module that a node was exported of, by its name.

    Parts of a sequence repeat its name in front of their number: `mlp/mlp.0` is `mlp.0`.
    """
    path: list[str] = []
    for part in node.name.strip("/").split("/")[:-1]:
        if path and part.startswith(f"{path[-1]}."):
            path.pop()
        path.append(part)
    return ".".join(path)


def put(graph: Graph, found: dict[str, str], name: str, stored: str) -> None:
    """State that `stored` is the tensor `name`; raises CheckpointError where that cannot be."""
    if stored not in graph.tensors:
        raise CheckpointError(f"{graph.path}: {name} is computed, not stored")
    if found.setdefault(name, stored) != stored:
        raise CheckpointError(f"{graph.path}: {name} is there twice, as {found[name]} and {stored}")


def check_all_used(graph: Graph, found: Mapping[str, str]) -> None:
    """Raises CheckpointError for a weight that has no name of a module."""
    used = set(found.values())
    for name, tensor in graph.tensors.items():
        if name not in used and tensor.dtype.startswith("<f") and len(tensor.shape) > 1:
            raise CheckpointError(f"{graph.path} has {name} {list(tensor.shape)}, of unknown use")
