"""ConvNeXt blocks (Liu et al., 2022), and what a causal convolution carries."""

import torch
from torch import Tensor, nn

LAYER_SCALE = 0.1


def tail_after(x: Tensor, lengths: Tensor, size: int) -> Tensor:
    """The `size` steps before position `lengths + size` of x, per stream.

    x: [batch, size + steps, channels], the old tail followed by the new steps, right padded.
    lengths: [batch] int64, how many of the new steps are real.
    Returns [batch, size, channels]: what a causal convolution must remember.
    """
    index = lengths[:, None] + torch.arange(size, device=x.device)
    return x.gather(1, index[..., None].expand(-1, -1, x.shape[-1]))


def depthwise(padded: Tensor, convolution: nn.Conv1d) -> Tensor:
    """A depthwise convolution that pads nothing.

    [batch, kernel - 1 + steps, channels] -> [batch, steps, channels]. In use a product and sums
    replace conv1d, a call of which costs 150 us on a CPU however small it is, three times as much.
    The sums are written out, because addcmul and sum round differently depending on where a step
    stands.
    """
    if convolution.training:
        mixed: Tensor = convolution(padded.transpose(1, 2)).transpose(1, 2)
        return mixed
    assert convolution.bias is not None
    taps = convolution.weight[:, 0].t().contiguous()
    places = padded.unfold(1, len(taps), 1).permute(0, 3, 1, 2)
    total, *others = (places * taps[:, None]).unbind(1)
    total = total + convolution.bias
    for other in others:
        total += other
    return total


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
        mixed = depthwise(padded, self.depthwise)
        hidden = nn.functional.gelu(self.rise(self.norm(mixed)))
        return x + self.scale * self.fall(hidden)
