"""Products of narrow numbers that stay as wide as they were summed."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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
