"""Text of the vesper talker: encoders of tokens, once an utterance, and codes of frames.

The architecture is hibari's (Apache-2.0): embedding, two ConvNeXt blocks, one transformer layer
applied several times. Two of them come with the voice, frozen: one says what the decoder is told
of a token, the other what the token's duration, pitch and energy follow from.
"""

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import ConvNeXt

_KERNEL = 5
_EXPANSION = 2
_CONVOLUTIONS = 2
_HEADS = 2


class VesperTextEncoder(nn.Module):
    """[batch, tokens] int64 -> [batch, tokens, dim]."""

    def __init__(self, symbols: int, dim: int, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.embedding = nn.Embedding(symbols, dim)
        self.convolutions = nn.ModuleList(
            ConvNeXt(dim, _KERNEL, _EXPANSION) for _ in range(_CONVOLUTIONS)
        )
        self.layer = _Layer(dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, tokens: Tensor, real: Tensor | None = None) -> Tensor:
        """real: [batch, tokens] bool, False where a row is padded; None: all are real."""
        x = self.embedding(tokens)
        keep = None if real is None else real[..., None].to(x.dtype)
        for convolution in self.convolutions:
            x = convolution(x if keep is None else x * keep)
        hidden = None if real is None else ~real[:, None, None]
        for _ in range(self.rounds):
            x = self.layer(x, hidden)
        out: Tensor = self.norm(x)
        return out


class _Layer(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.heads = _HEADS
        self.attention_norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp_norm = nn.LayerNorm(dim)
        self.rise = nn.Linear(dim, 2 * dim)
        self.fall = nn.Linear(2 * dim, dim)

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        """hidden: [batch, 1, 1, tokens] bool, True for tokens that nothing attends to."""
        q, k, v = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1) * q.shape[-1] ** -0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        attended = (scores.softmax(-1) @ v.transpose(1, 2)).transpose(1, 2).flatten(2)
        x = x + self.out(attended)
        out: Tensor = x + self.fall(nn.functional.gelu(self.rise(self.mlp_norm(x))))
        return out


class TextCodes(nn.Module):
    """Codebooks 2 and 3 of frames, from what the text encoder makes of their tokens."""

    def __init__(self, tables: Tensor) -> None:
        """tables: [2, entries, 2 * text_dim], the second of what the first leaves over."""
        super().__init__()
        self.entries = tables[0].detach()
        self.distances = nn.ModuleList(_distances(table.detach()) for table in tables)

    def forward(self, units: Tensor) -> Tensor:
        """units: [frames, 2, text_dim] of the token of either unit -> [frames, 2] int64."""
        told = units.flatten(1)
        first = self.distances[0](told).argmin(1)
        rest = told - self.entries[first]
        return torch.stack((first, self.distances[1](rest).argmin(1)), 1)


def _distances(table: Tensor) -> nn.Linear:
    """Squared distances to all entries, but for what does not depend on the entry."""
    entries, size = table.shape
    linear = nn.Linear(size, entries, device=table.device)
    linear.weight = nn.Parameter(-2 * table, requires_grad=False)
    linear.bias = nn.Parameter(table.square().sum(1), requires_grad=False)
    return linear
