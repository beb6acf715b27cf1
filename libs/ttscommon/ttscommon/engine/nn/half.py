"""Linear layers with float16 weights and float32 arithmetic, for inference on CPUs.

At a few rows a product is as slow as its weights are big: half the bytes are up to four times the
speed. fbgemm keeps the weights packed; products accumulate in float32. Weights that were stored in
float16 lose nothing.

A row's result does not depend on how many rows there are. fbgemm alone does not promise that: where
a CPU has no AVX-512, the kernels that it uses for one and for two rows add up in another order, and
a table divides the rows among kernels. So the first layer tries out which numbers of rows are safe,
and every layer pads the others.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.wide import WideLinear

_LINEARS: Final = (nn.Linear, WideLinear)
# Its only overload, without looking for tensors of Python's own kinds: choosing and looking take as
# long as a small product.
_OVERLOAD: Final = torch.ops.quantized.linear_dynamic_fp16.default
_LINEAR: Final[Callable[[Tensor, Any], Tensor]] = getattr(_OVERLOAD, "_op", _OVERLOAD)
_BLOCK: Final = 120
"""fbgemm divides the rows into blocks of so many, and each block among kernels."""
_LEAST_STEP: Final = 2.0**-24
_SAFE: Final = 4
"""Rows of a product that all others are held to."""


class HalfLinear(nn.Module):
    """`nn.Linear` for inference on CPUs: [..., in] float32 -> [..., out] float32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        bias: Tensor | None = linear.bias
        bias = bias if bias is None else bias.detach().float()
        self._packed: Any = torch.ops.quantized.linear_prepack_fp16(weight, bias)
        self._missing = missing_rows()
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def numbers(self) -> tuple[Tensor, Tensor | None]:
        """Weight [out, in] and bias [out], float32."""
        weight, bias = torch.ops.quantized.linear_unpack_fp16(self._packed)
        return weight, bias

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        rows = x.numel() // self.in_features
        missing = self._missing[rows % _BLOCK]
        if not missing:
            out: Tensor = _LINEAR(x, self._packed)
            return out
        padded = nn.functional.pad(x.reshape(rows, -1), (0, 0, 0, missing))
        out = _LINEAR(padded, self._packed)[:rows]
        return out.view(*x.shape[:-1], self.out_features)


@cache
def missing_rows() -> tuple[int, ...]:
    """How many rows to add to `index` rows, modulo _BLOCK, for the bits they have among others."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(_BLOCK, 64, generator=generator)
    packed = torch.ops.quantized.linear_prepack_fp16(torch.randn(16, 64, generator=generator), None)
    expected = torch.cat([_LINEAR(part, packed) for part in x.split(_SAFE)])
    safe = [n for n in range(1, _BLOCK + 1) if torch.equal(_LINEAR(x[:n], packed), expected[:n])]
    return (0, *(next(m - n for m in safe if m >= n) for n in range(1, _BLOCK)))


def loses(weight: Tensor) -> bool:
    """Whether float16 holds other numbers than these."""
    return bool((weight.half().to(weight.dtype) - weight).abs().max() > _LEAST_STEP / 2)


def halve(module: nn.Module, *, lossless: bool = False) -> bool:
    """Replace every `nn.Linear` inside of a module on the CPU by its `HalfLinear`.

    lossless: only those whose weights are float16's numbers, or less than half of its smallest
    step away, as weights that were stored in bfloat16 are. Returns False, with the module
    unchanged, where torch was built without fbgemm.
    """
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        return False
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if not isinstance(child, nn.Linear) or type(child) not in _LINEARS:
                continue
            if not (lossless and loses(child.weight)):
                setattr(parent, name, HalfLinear(child))
    return True
