"""Linear layers of language models in fewer bytes, packed while a checkpoint is loaded.

At a few rows a product takes as long as its weights take to be read. On a processor weights may be
bfloat16, float16, or int8 with a scale for each output, and the arithmetic stays float32; on a GPU
they may be float8 with such a scale. Packed are the products of attention and of the feed-forward
networks, where nearly all weights are. Tables, heads, experts and codecs stay as they were.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import structlog
import torch
from torch import Tensor, nn

from ttscommon.engine.inflight import DeviceError
from ttscommon.engine.kernels.choice import compiles
from ttscommon.engine.nn.decoder import DecoderBlock, Scale, SwiGLU
from ttscommon.engine.nn.linears import Float8Linear, WideLinear

if TYPE_CHECKING:
    from ttscommon.engine.kernels.integer_products_numba import IntegerProduct
    from ttscommon.engine.kernels.products_numba import AnyProduct

Kind = Literal["bfloat16", "float16", "int8"]
Weights = Literal["auto", "bfloat16", "float16", "int8", "fp8"]
"""auto: the narrowest of bfloat16 and float16 that holds a layer's weights as they are published,
or float32.
"""

_LINEARS: Final = (nn.Linear, WideLinear)
# A mixture's choice of experts turns on small differences.
_ROUTER: Final = "router"
_LEAST_STEP: Final = 2.0**-24
# The first whose tensor cores and compilers know e4m3.
_FLOAT8_CAPABILITY: Final = (8, 9)
_own = threading.local()
log_ = structlog.get_logger(__name__)


class PackedLinear(nn.Module):
    """`nn.Linear` for inference on CPUs, of narrow weights: [..., in] float32 -> [..., out].

    A row's result does not depend on how many rows there are; see `products_numba`.
    """

    dtype: Final = torch.float32

    def __init__(self, linear: nn.Linear, kind: Kind) -> None:
        super().__init__()
        from ttscommon.engine.kernels import products_numba as products

        given: Tensor | None = linear.bias
        bias = None if given is None else given.detach().float().numpy()
        weight = linear.weight.detach()
        self.product: AnyProduct
        if kind == "bfloat16":
            bits = weight.bfloat16().view(torch.int16)
            self.product = products.packed_brain(bits.numpy(), bias)
        elif kind == "float16":
            self.product = products.packed(weight.float().numpy(), bias)
        else:
            self.product = products.packed_scaled(weight.float().numpy(), bias)
        self._multiply, self._unpacked = products.applied, products.unpacked
        self.in_features, self.out_features = linear.in_features, linear.out_features

    @property
    def nbytes(self) -> int:
        """Of weights, scales and biases."""
        return sum(part.nbytes for part in self.product)

    def numbers(self) -> tuple[Tensor, Tensor]:
        """Weight [out, in] and bias [out], float32."""
        weight, bias = self._unpacked(self.product, self.out_features)
        return torch.from_numpy(weight), torch.from_numpy(bias)

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        given = np.ascontiguousarray(x.detach().numpy())
        rows = given.reshape(given.size // self.in_features, self.in_features)
        out = np.empty((*given.shape[:-1], self.out_features), np.float32)
        self._multiply(rows, self.product, out.reshape(len(rows), self.out_features))
        return torch.from_numpy(out)


@dataclass
class Packing:
    """What was packed so far: layers, and the bytes of their weights before and now."""

    weights: Weights
    layers: int = 0
    wide_bytes: int = 0
    bytes: int = 0

    def layer(self, linear: nn.Linear) -> nn.Module:
        """What takes its place, or itself."""
        found = self._packed(linear)
        if found is None:
            return linear
        self.layers += 1
        self.wide_bytes += sum(part.nbytes for part in linear.parameters())
        self.bytes += found.nbytes
        return found

    def tell(self, model: str) -> None:
        """What it came to, in the log."""
        said = {"model": model, "weights": self.weights}
        if self.layers:
            before, now = (number // 10**6 for number in (self.wide_bytes, self.bytes))
            log_.info("weights.packed", **said, layers=self.layers, mb=now, mb_before=before)
        else:
            log_.warning(
                "weights.not_packed", **said, why="no language model, or none that it holds"
            )

    def _packed(self, linear: nn.Linear) -> PackedLinear | Float8Linear | None:
        if self.weights == "fp8":
            return Float8Linear(linear)
        kind = narrowest(linear.weight) if self.weights == "auto" else self.weights
        return None if kind is None else PackedLinear(linear, kind)


def packed_on(device: str, weights: Weights | None) -> Weights | None:
    """What to pack weights as on a device, "cpu" or "cuda:N", which has two bytes anyway if it is
    none. Raises DeviceError for what it does not compute with.
    """
    if device == "cpu":
        if weights == "fp8":
            raise DeviceError("fp8 weights need a GPU: a CPU has bfloat16, float16 and int8")
        if weights is None or compiles():
            return weights
        if weights == "auto":
            return None
        raise DeviceError(f"{weights} weights need kernels, which cannot be compiled here")
    if weights in (None, "auto", "bfloat16"):
        return None
    if weights != "fp8":
        raise DeviceError(f"{weights} weights are a CPU's: a GPU has bfloat16 and fp8")
    if (found := torch.cuda.get_device_capability(device)) < _FLOAT8_CAPABILITY:
        mine, least = (".".join(map(str, one)) for one in (found, _FLOAT8_CAPABILITY))
        raise DeviceError(f"fp8 weights need compute capability {least}; {device} has {mine}")
    return weights


@contextmanager
def packing(weights: Weights | None) -> Iterator[Packing | None]:
    """What this thread loads within is packed so; None packs nothing."""
    if weights is None:
        yield None
        return
    _own.packing = found = Packing(weights)
    try:
        yield found
    finally:
        del _own.packing


class Packer:
    """Packs the layers of a network, each when it has been filled, so that no more than one is
    in memory at its full width.
    """

    def __init__(self, net: nn.Module) -> None:
        self._packing: Packing | None = getattr(_own, "packing", None)
        self._homes = set(_homes(net)) if self._packing else set()
        self._net = net

    def filled(self, name: str) -> None:
        """A module of this name has its weights."""
        home, _, part = name.rpartition(".")
        parent = self._net.get_submodule(home)
        if self._packing is None or parent not in self._homes or part == _ROUTER:
            return
        linear = getattr(parent, part)
        if type(linear) in _LINEARS:
            setattr(parent, part, self._packing.layer(linear))


def _homes(net: nn.Module) -> Iterator[nn.Module]:
    """The modules whose layers are packed: none of a codec's, whose residuals have scales."""
    modules = list(net.modules())
    blocks = [module for module in modules if isinstance(module, DecoderBlock)]
    if not blocks or any(isinstance(module, Scale) for module in modules):
        return
    for block in blocks:
        yield from (block.attention, block.mlp)
    yield from (module for module in modules if isinstance(module, SwiGLU))


def narrowest(weight: Tensor) -> Kind | None:
    """Two bytes that hold these numbers, None if they need four."""
    if torch.equal(weight.bfloat16().to(weight.dtype), weight):
        return "bfloat16"
    return None if loses(weight) else "float16"


def loses(weight: Tensor) -> bool:
    """Whether float16 holds other numbers than these."""
    return bool((weight.half().to(weight.dtype) - weight).abs().max() > _LEAST_STEP / 2)


class HalfLinear(PackedLinear):
    """Of networks that are small enough to be packed at once. Weights that were stored in float16
    lose nothing.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear, "float16")


def integers_in(layer: nn.Module, *, narrow: bool = False) -> IntegerProduct:
    """Of a layer that is halved, as compiled loops take it. narrow: weights are bytes."""
    from ttscommon.engine.kernels.integer_products_numba import integers_of

    assert isinstance(layer, HalfLinear)
    weight, bias = layer.numbers()
    return integers_of(weight.numpy(), bias.numpy(), narrow=narrow)


def halve(module: nn.Module, *, lossless: bool = False) -> bool:
    """Replace every `nn.Linear` inside of a module on the CPU by its `HalfLinear`.

    lossless: only those whose weights are float16's numbers, or less than half of its smallest
    step away, as weights that were stored in bfloat16 are. Returns False, with the module
    unchanged, where nothing can be compiled.
    """
    if not compiles():
        return False
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if not isinstance(child, nn.Linear) or type(child) not in _LINEARS:
                continue
            if not (lossless and loses(child.weight)):
                setattr(parent, name, HalfLinear(child))
    return True
