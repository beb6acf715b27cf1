"""Linear layers beside torch's: products wider than their weights, and weights in float8.

A float8 weight is e4m3 (Micikevicius et al., 2022) times a scale for each output. The kernel of
few rows reads both, and multiplies in the type of what comes in: e4m3's numbers are bfloat16's.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.few_rows import are_few, multiply

FLOAT8: Final = torch.float8_e4m3fn


class WideLinear(nn.Linear):
    """`nn.Linear` to float32 from weights of any type.

    A product of two bfloat16 numbers is exact in float32, so that narrow weights lose nothing of
    what float32 copies of them would give, and are half the bytes.
    """

    @staticmethod
    def multiplies_narrow(where: torch.device | str) -> bool:
        """Whether this device sums narrow products in float32; a CPU is given float32 weights."""
        return torch.device(where).type != "cpu"

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] of the weights' type -> [..., out] float32."""
        bias: Tensor | None = self.bias
        if self.weight.dtype == torch.promote_types(self.weight.dtype, torch.float32):
            return super().forward(x)
        if not self.multiplies_narrow(x.device):
            wide = None if bias is None else bias.float()
            return nn.functional.linear(x.float(), self.weight.float(), wide)
        rows = x.reshape(-1, self.in_features)
        out = torch.mm(rows, self.weight.t(), out_dtype=torch.float32)
        out = out if bias is None else out + bias
        return out.view(*x.shape[:-1], -1)


class Float8Linear(nn.Module):
    """`nn.Linear` for inference on GPUs, of float8 weights with a scale for each output.

    dtype: of the layer that it replaces, in which its numbers are multiplied. wide: sums stay
    float32.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        exact = linear.weight.detach().float()
        scale = exact.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny)
        scale = scale / torch.finfo(FLOAT8).max
        self.register_buffer("weight", (exact / scale[:, None]).to(FLOAT8))
        self.register_buffer("scale", scale)
        given: Tensor | None = linear.bias
        self.register_buffer("bias", None if given is None else given.detach())
        self.dtype, self.wide = linear.weight.dtype, isinstance(linear, WideLinear)
        self.in_features, self.out_features = linear.in_features, linear.out_features

    @property
    def nbytes(self) -> int:
        """Of weights, scales and biases."""
        return sum(part.nbytes for part in self.buffers())

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out] in the layer's type, or float32."""
        kind = torch.float32 if self.wide else self.dtype
        rows = x.to(self.dtype).reshape(-1, self.in_features)
        if are_few(len(rows)):
            out = multiply(rows, self.weight, self.bias, scales=self.scale, dtype=kind)
        else:
            out = self._of_many(rows).to(kind)
        return out.view(*x.shape[:-1], -1)

    def _of_many(self, rows: Tensor) -> Tensor:
        """By a library, which multiplies numbers of one type; the scale comes behind."""
        out = nn.functional.linear(rows, self.weight.to(self.dtype)).float() * self.scale
        return out if self.bias is None else out + self.bias
