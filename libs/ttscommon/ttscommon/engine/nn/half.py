"""Linear layers with float16 weights, for networks that are small enough to be packed at once.

Weights that were stored in float16 lose nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from ttscommon.engine.kernels.choice import compiles
from ttscommon.engine.nn.packed import LINEARS, PackedLinear, loses

if TYPE_CHECKING:
    from ttscommon.engine.kernels.integer_products_numba import IntegerProduct


class HalfLinear(PackedLinear):
    """`nn.Linear` for inference on CPUs: [..., in] float32 -> [..., out] float32."""

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
            if not isinstance(child, nn.Linear) or type(child) not in LINEARS:
                continue
            if not (lossless and loses(child.weight)):
                setattr(parent, name, HalfLinear(child))
    return True
