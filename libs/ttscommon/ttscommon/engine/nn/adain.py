"""Residual blocks that take a style (AdaIN; Huang and Belongie, 2017), as in StyleTTS 2.

Their norm is over all of the time that they are shown. Names of modules are those of published
checkpoints.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.weights import Source, same

_SLOPE = 0.2
_EPS = 1e-5
_HALF = 2**-0.5


class NormedConv1d(nn.Conv1d):
    """A convolution whose weight is published as length and direction."""


class NormedConvTranspose1d(nn.ConvTranspose1d):
    """Likewise."""


def published(net: nn.Module, prefix: str) -> dict[str, Source]:
    """Sources of a network whose names are published behind `prefix`, weight norm unfolded."""
    found: dict[str, Source] = {}
    for place, module in net.named_modules():
        for part, _ in module.named_parameters(recurse=False):
            key = f"{place}.{part}" if place else part
            found[key] = same(prefix + key)
            if part == "weight" and isinstance(module, NormedConv1d | NormedConvTranspose1d):
                found[key] = Source((f"{prefix}{key}_g", f"{prefix}{key}_v"), folded=True)
    return found


class AdaIN1d(nn.Module):
    """Each channel to mean 0 and variance 1 over time, then to the style's own."""

    def __init__(self, style_dim: int, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(style_dim, 2 * channels)

    def affine(self, x: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """[1, channels, steps] and [style_dim] -> scale and shift, [channels, 1] each."""
        gamma, beta = self.fc(style)[:, None].chunk(2)
        # var_mean takes eight times as long, and addcmul below four times.
        mean = x[0].mean(1, keepdim=True)
        variance = (x[0] - mean).square_().mean(1, keepdim=True)
        scale = (1 + gamma) * torch.rsqrt(variance + _EPS)
        return scale, beta - mean * scale

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """[1, channels, steps] and [style_dim] -> the first's shape."""
        scale, shift = self.affine(x, style)
        return (x * scale).add_(shift)


class AdainResBlk1d(nn.Module):
    """Two convolutions around a residual; `doubles` has twice as many steps come out."""

    def __init__(self, inputs: int, outputs: int, style_dim: int, *, doubles: bool = False) -> None:
        super().__init__()
        self.doubles = doubles
        self.conv1 = NormedConv1d(inputs, outputs, 3, padding=1)
        self.conv2 = NormedConv1d(outputs, outputs, 3, padding=1)
        self.norm1 = AdaIN1d(style_dim, inputs)
        self.norm2 = AdaIN1d(style_dim, outputs)
        if inputs != outputs:
            self.conv1x1 = NormedConv1d(inputs, outputs, 1, bias=False)
        if doubles:
            self.pool = NormedConvTranspose1d(
                inputs, inputs, 3, stride=2, padding=1, output_padding=1, groups=inputs
            )

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """[1, inputs, steps] and [style_dim] -> [1, outputs, steps or twice as many]."""
        y = nn.functional.leaky_relu(self.norm1(x, style), _SLOPE)
        y = self.conv1(self.pool(y) if self.doubles else y)
        y = self.conv2(nn.functional.leaky_relu(self.norm2(y, style), _SLOPE))
        if self.doubles:
            x = x.repeat_interleave(2, 2)
        if hasattr(self, "conv1x1"):
            x = self.conv1x1(x)
        return (x + y) * _HALF
