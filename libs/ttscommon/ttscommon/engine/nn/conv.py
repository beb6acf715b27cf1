"""ConvNeXt blocks (Liu et al., 2022)."""

import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.convnext import add_scaled, gelu, mix_norm

LAYER_SCALE = 0.1


class ConvNeXt(nn.Module):
    """Depthwise convolution, norm and a two-layer MLP around a scaled residual."""

    def __init__(self, size: int, kernel: int, expansion: int) -> None:
        """`kernel` is odd: as many steps before as after."""
        super().__init__()
        self.around = kernel // 2
        self.depthwise = nn.Conv1d(size, size, kernel, groups=size)
        self.norm = nn.LayerNorm(size)
        self.rise = nn.Linear(size, expansion * size)
        self.fall = nn.Linear(expansion * size, size)
        self.scale = nn.Parameter(torch.full((size,), LAYER_SCALE))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, steps, size] -> [batch, steps, size], zeros around the input."""
        padded = nn.functional.pad(x, (0, 0, self.around, self.around))
        hidden = gelu(self.rise(mix_norm(padded, self.depthwise, self.norm)))
        return add_scaled(padded, self.around, self.scale, self.fall(hidden))
