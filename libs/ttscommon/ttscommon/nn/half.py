"""Linear layers with float16 weights and float32 arithmetic, for inference on CPUs.

At a few rows a product is as slow as its weights are big: half the bytes are up to four times the
speed. fbgemm keeps the weights packed; products accumulate in float32, and a row's result does not
depend on how many rows there are. Weights that were stored in float16 lose nothing.
"""

from typing import Any, Final

import torch
from torch import Tensor, nn

# Of its only overload: choosing one takes as long as a small product.
_LINEAR: Final = torch.ops.quantized.linear_dynamic_fp16.default


class HalfLinear(nn.Module):
    """`nn.Linear` for inference on CPUs: [..., in] float32 -> [..., out] float32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        bias: Tensor | None = linear.bias
        bias = bias if bias is None else bias.detach().float()
        self._packed: Any = torch.ops.quantized.linear_prepack_fp16(weight, bias)
        self.out_features = linear.out_features

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        out: Tensor = _LINEAR(x, self._packed)
        return out


def halve(module: nn.Module) -> bool:
    """Replace every `nn.Linear` inside of a module on the CPU by its `HalfLinear`.

    Returns False, with the module unchanged, where torch was built without fbgemm.
    """
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        return False
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                setattr(parent, name, HalfLinear(child))
    return True
