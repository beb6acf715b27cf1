"""Root mean square normalisation."""

import torch
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Scale the last dimension to unit root mean square (Zhang and Sennrich, 2019)."""

    def __init__(self, size: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.size = size
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] -> [..., size]."""
        return nn.functional.rms_norm(x, (self.size,), self.weight, self.eps)
