"""Linear layers with float8 weights, for inference on GPUs.

A weight is e4m3 (Micikevicius et al., 2022) times a scale for each output. Both are read by the
kernel of few rows, which multiplies in the type of what comes in: e4m3's numbers are bfloat16's.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.few_rows import are_few, multiply
from ttscommon.engine.nn.wide import WideLinear

FLOAT8: Final = torch.float8_e4m3fn


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
