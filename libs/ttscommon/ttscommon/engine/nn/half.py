"""Linear layers with float16 weights and float32 arithmetic, for inference on CPUs.

At a few rows a product is as slow as its weights are big: half the bytes are up to four times the
speed. Weights that were stored in float16 lose nothing. A row's result does not depend on how many
rows there are; see `products_numba`.
"""

from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.choice import compiles
from ttscommon.engine.nn.wide import WideLinear

_LINEARS: Final = (nn.Linear, WideLinear)
_LEAST_STEP: Final = 2.0**-24


class HalfLinear(nn.Module):
    """`nn.Linear` for inference on CPUs: [..., in] float32 -> [..., out] float32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        from ttscommon.engine.kernels import products_numba as products

        weight = linear.weight.detach().float().numpy()
        bias: Tensor | None = linear.bias
        self.product = products.packed(weight, None if bias is None else bias.detach().numpy())
        self._multiply, self._unpacked = products.product_of, products.unpacked
        self.in_features, self.out_features = linear.in_features, linear.out_features

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


def loses(weight: Tensor) -> bool:
    """Whether float16 holds other numbers than these."""
    return bool((weight.half().to(weight.dtype) - weight).abs().max() > _LEAST_STEP / 2)


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
