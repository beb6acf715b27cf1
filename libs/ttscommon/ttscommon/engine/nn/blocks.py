"""Small blocks of several networks: norms, ConvNeXt, and a transformer's block."""

import torch
from torch import Tensor, nn

from ttscommon.engine.kernels.blocks import add_norm
from ttscommon.engine.kernels.convnext import depthwise
from ttscommon.engine.nn.rope import rotated

LAYER_SCALE = 0.1


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


class ConvNeXt(nn.Module):
    """Depthwise convolution, norm and two-layer MLP around a scaled residual (Liu et al., 2022)."""

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
        hidden: Tensor = self.rise(self.norm(depthwise(padded, self.depthwise)))
        return x + self.scale * self.fall(nn.functional.gelu(hidden))


class TransformerBlock(nn.Module):
    """Pre-norm attention and SwiGLU; `queries`, then the caller's attention, then `finish`."""

    def __init__(self, dim: int, heads: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.mlp_norm = RMSNorm(dim)
        self.gate = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def queries(self, x: Tensor, cosines: Tensor, sines: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[..., dim] -> q and k, rotated, and v, each [..., heads, head_dim].

        cosines, sines: of the positions, [..., 1, 1, head_dim / 2].
        """
        qkv = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1))
        q, k = rotated(qkv.narrow(-3, 0, 2), cosines, sines).unbind(-3)
        return q, k, qkv.select(-3, 2)

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """The block's output from its input and the attention's [..., heads, head_dim]."""
        x = x + self.dropout(self.out(attended.flatten(-2)))
        gate, up = self.gate(self.mlp_norm(x)).chunk(2, -1)
        return x + self.dropout(self.down(nn.functional.silu(gate) * up))


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Whole sequences at once, [batch, time, heads, head_dim]; written out for training on CPUs.

    The fused kernel's backward pass takes twice as long there at these sizes.
    """
    time = q.shape[1]
    future = torch.full((time, time), float("-inf"), device=q.device).triu(1)
    scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1) * q.shape[-1] ** -0.5
    weights = (scores + future.to(scores.dtype)).softmax(-1).to(v.dtype)
    return (weights @ v.transpose(1, 2)).transpose(1, 2)
