"""The layers of the vesper decoder: causal, with a carried past, answering a few steps late."""

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import depthwise


class LateConvNeXt(nn.Module):
    """A ConvNeXt block that carries its past and looks `ahead` steps ahead.

    Its output at a step is that of the input `ahead` steps before.
    """

    def __init__(self, size: int, kernel: int, expansion: int, ahead: int) -> None:
        super().__init__()
        self.kernel, self.ahead = kernel, ahead
        self.depthwise = nn.Conv1d(size, size, kernel, groups=size)
        self.norm = nn.LayerNorm(size)
        self.rise = nn.Linear(size, expansion * size)
        self.fall = nn.Linear(expansion * size, size)
        self.scale = nn.Parameter(torch.ones(size))

    def forward(self, padded: Tensor) -> Tensor:
        """[batch, kernel - 1 + steps, size], the past and the new -> [batch, steps, size]."""
        first = self.kernel - 1 - self.ahead
        steps = padded.shape[1] - self.kernel + 1
        mixed = depthwise(padded, self.depthwise)
        hidden = nn.functional.gelu(self.rise(self.norm(mixed)))
        out: Tensor = padded[:, first : first + steps] + self.scale * self.fall(hidden)
        return out


def kept(x: Tensor, lengths: Tensor, size: int) -> Tensor:
    """The `size` steps of x before `size + lengths`, what a stream remembers of them.

    x: [batch, size + steps, channels], the old steps and the new ones, right padded; lengths:
    [batch] int64, how many of the new are real.
    """
    places = lengths[:, None] + torch.arange(size, device=x.device)
    return x[torch.arange(len(x), device=x.device)[:, None], places]
