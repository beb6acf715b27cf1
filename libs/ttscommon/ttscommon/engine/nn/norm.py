"""Norms that torch has not, or not as they are used here."""

import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.blocks import add_norm


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

    def of_sum(self, x: Tensor, added: Tensor | None) -> tuple[Tensor, Tensor]:
        """x + added and its norm, [..., size] each, in one kernel where there is one."""
        return add_norm(x, added, self.weight, self.eps)


class ChannelNorm(nn.Module):
    """Layer norm over channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, steps] -> the same."""
        shape = self.gamma.shape
        return nn.functional.layer_norm(x.mT, shape, self.gamma, self.beta).mT
