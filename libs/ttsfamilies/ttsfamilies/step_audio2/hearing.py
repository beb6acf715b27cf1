"""Sound to rows that stand in a prompt: a Whisper encoder, a pool of two, and an adaptor.

Attention is full within a segment of 25 s, so that all of one is heard at once. Names of modules
are those of published checkpoints.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

from ttscommon.engine.nn import dense_attention
from ttsfamilies.base.s3.references import RATE_HZ, WhisperMel
from ttsfamilies.step_audio2.config import SEGMENT_S, HearingSizes

_PADDING: Final = 479
_INNER: Final = 2048
# Mel frames at the end that are of padding alone.
_SPARE: Final = 2


class WhisperAttention(nn.Module):
    """Of all states to all that count."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.query, self.value, self.out = (nn.Linear(dim, dim) for _ in range(3))
        self.key = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, shown: Tensor) -> Tensor:
        """[states, dim]; shown: [1, states] bool -> the first's shape."""
        q, k, v = (
            to(x).unflatten(-1, (self._heads, -1)) for to in (self.query, self.key, self.value)
        )
        found: Tensor = self.out(dense_attention(q, k, v, shown).flatten(-2))
        return found


class WhisperBlock(nn.Module):
    """Pre-norm attention and a plain feed-forward network."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.attn, self.attn_ln = WhisperAttention(dim, heads), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.mlp_ln = nn.LayerNorm(dim)

    def forward(self, x: Tensor, shown: Tensor) -> Tensor:
        x = x + self.attn(self.attn_ln(x), shown)
        found: Tensor = x + self.mlp(self.mlp_ln(x))
        return found


class PooledWhisper(nn.Module):
    """Mel frames to a quarter as many states."""

    def __init__(self, c: HearingSizes) -> None:
        super().__init__()
        dim = c.n_audio_state
        self.conv1 = nn.Conv1d(c.n_mels, dim, 3, padding=1)
        self.conv2 = nn.Conv1d(dim, dim, 3, stride=2, padding=1)
        self.positional_embedding = nn.Embedding(c.n_audio_ctx, dim)
        self.blocks = nn.ModuleList(
            WhisperBlock(dim, c.n_audio_head) for _ in range(c.n_audio_layer)
        )
        self.after_norm = nn.LayerNorm(dim)

    def forward(self, mel: Tensor) -> Tensor:
        """[mels, frames] -> [states, dim]; the last one may be of spare frames alone."""
        x = nn.functional.gelu(self.conv1(mel[None]))
        x = nn.functional.gelu(self.conv2(x))[0].T
        x = x + self.positional_embedding.weight[: len(x)]
        shown = torch.arange(len(x), device=x.device) < _counted(mel.shape[1])
        for block in self.blocks:
            x = block(x, shown[None])
        found: Tensor = self.after_norm(nn.functional.avg_pool1d(x.T, 2).T)
        return found


class Adaptor(nn.Module):
    """Half as many rows, as wide as the language model's."""

    def __init__(self, c: HearingSizes) -> None:
        super().__init__()
        dim = c.n_audio_state
        self.conv = nn.Conv1d(dim, dim, c.kernel_size, c.adapter_stride, padding=1)
        self.linear1, self.linear2 = nn.Linear(dim, _INNER), nn.Linear(_INNER, c.llm_dim)

    def forward(self, x: Tensor) -> Tensor:
        """[states, dim] -> [rows, llm_dim]."""
        x = nn.functional.gelu(self.conv(x.T[None]))[0].T
        found: Tensor = self.linear2(nn.functional.relu(self.linear1(x)))
        return found


class StepHearing(nn.Module):
    """What was said to the model, as rows: 12.5 a second."""

    def __init__(self, c: HearingSizes) -> None:
        super().__init__()
        self.mel = WhisperMel()
        self.encoder, self.adapter = PooledWhisper(c), Adaptor(c)

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1 at 16 kHz -> [rows, llm_dim]."""
        each = SEGMENT_S * RATE_HZ
        parts = (wav[at : at + each] for at in range(0, len(wav), each))
        return torch.cat([self._segment(part) for part in parts])

    def _segment(self, wav: Tensor) -> Tensor:
        mel = self.mel(nn.functional.pad(wav, (0, _PADDING)))
        found: Tensor = self.adapter(self.encoder(mel.to(self.encoder.conv1.weight.dtype)))
        return found[: rows_of(len(wav))]


def rows_of(samples: int) -> int:
    """Rows of so many samples, of one segment."""
    states = (_frames(samples) - _SPARE + 1) // 2 // 2
    return (states - 1) // 2 + 1


def _frames(samples: int) -> int:
    return (samples + _PADDING) // 160


def _counted(frames: int) -> int:
    """States before the pool that others see."""
    first = (frames + 1) % 2
    return len(range(first, frames - _SPARE, 2))


SEGMENT_ROWS: Final = rows_of(SEGMENT_S * RATE_HZ)
