"""A pre-norm transformer block (RMSNorm, SwiGLU) that leaves attention to its caller."""

import torch
from torch import Tensor, nn

from ttscommon.engine.nn.norm import RMSNorm
from ttscommon.engine.nn.rope import rotated


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
