"""Causal convolutions that go on from a carried tail, for codecs that stream.

Channels come first here, [batch, channels, steps], as torch's convolutions want them. `step`
takes right-padded input with its real `lengths` [batch] and gives the tail behind them, so shapes
are fixed whatever the lengths.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def steps_before(x: Tensor, lengths: Tensor, size: int) -> Tensor:
    """The `size` steps before position `lengths + size` of x, per stream.

    x: [batch, channels, size + steps], the old tail followed by the new steps, right padded.
    """
    index = lengths[:, None] + torch.arange(size, device=x.device)
    return x.gather(2, index[:, None].expand(-1, x.shape[1], -1))


class CausalConv1d(nn.Conv1d):
    """A convolution over this step and those before it; stride 1."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, dilation: int = 1, groups: int = 1
    ) -> None:
        super().__init__(inputs, outputs, kernel, dilation=dilation, groups=groups)
        self.tail_size = (kernel - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        """[batch, inputs, steps] -> [batch, outputs, steps], zeros before the input."""
        return super().forward(nn.functional.pad(x, (self.tail_size, 0)))

    def step(self, x: Tensor, lengths: Tensor, tail: Tensor) -> tuple[Tensor, Tensor]:
        """Go on from a tail [batch, inputs, tail_size]. Returns output and new tail."""
        x = torch.cat((tail, x), 2)
        return super().forward(x), steps_before(x, lengths, self.tail_size)


class CausalUpsample1d(nn.ConvTranspose1d):
    """A transposed convolution of `rate` or 2 * `rate` taps; an output knows no later input."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        rate: int,
        *,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride=rate, groups=groups, bias=bias)
        if kernel not in (rate, 2 * rate):
            raise ValueError("an output overlaps with one earlier input at most")
        self.rate = rate
        self.tail_size = kernel // rate - 1

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        """[batch, inputs, steps] -> [batch, outputs, steps * rate]."""
        return super().forward(x, output_size)[..., : x.shape[2] * self.rate]

    def step(self, x: Tensor, lengths: Tensor, tail: Tensor) -> tuple[Tensor, Tensor]:
        """Go on from a tail [batch, inputs, tail_size]. Returns output and new tail."""
        x = torch.cat((tail, x), 2)
        start = self.tail_size * self.rate
        return self.forward(x)[..., start:], steps_before(x, lengths, self.tail_size)
