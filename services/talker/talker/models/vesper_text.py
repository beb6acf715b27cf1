"""Text encoders of the vesper talker: tokens in their context, once an utterance.

The architecture is hibari's (Apache-2.0): embedding, two ConvNeXt blocks, one transformer layer
applied several times. Two of them come with the voice, frozen: one says what the decoder is told
of a token, the other what the token's duration, pitch and energy follow from.
"""

from torch import Tensor, nn

from ttscommon.nn import ConvNeXt

_KERNEL = 5
_EXPANSION = 2
_CONVOLUTIONS = 2
_HEADS = 2


class TextEncoder(nn.Module):
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
        self.attention_norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp_norm = nn.LayerNorm(dim)
        self.rise = nn.Linear(dim, 2 * dim)
        self.fall = nn.Linear(2 * dim, dim)

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        """hidden: [batch, 1, 1, tokens] bool, True for tokens that nothing attends to."""
        q, k, v = self.qkv(self.attention_norm(x)).unflatten(-1, (3, _HEADS, -1)).unbind(-3)
        scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1) * q.shape[-1] ** -0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        attended = (scores.softmax(-1) @ v.transpose(1, 2)).transpose(1, 2).flatten(2)
        x = x + self.out(attended)
        out: Tensor = x + self.fall(nn.functional.gelu(self.rise(self.mlp_norm(x))))
        return out
