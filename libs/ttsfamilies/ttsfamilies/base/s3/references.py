"""S3 tokens of recordings, and what a flow codec and its talker are told of them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ttscommon.engine.nn import Rope, RopeConfig, dense_attention
from ttscommon.engine.nn.weights import digest
from ttscommon.sound.recordings import BadRecording, Floats, read_recording
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.lm.recordings import LogMel, mel_filters, windowed_sinc
from ttsfamilies.base.s3.speaker import SpeakerVector

# S3 tokens, versions 2 and 3 (Du et al., 2024 and 2025): 25 ids a second of a recording. A Whisper
# encoder whose attention has a memory of the values around it, and finite scalar quantisation of
# what comes out. All of a recording is heard at once: a prefix has other tokens. Always float32.


RATE_HZ: Final = 16_000
MELS: Final = 128
_HEAD_DIM, _MEMORY = 64, 31
_FFT, _HOP = 400, 160
_QUIETEST, _RANGE = 1e-10, 8.0
# A little less than a level, so that no digit reaches the border of the next.
_LEVEL: Final = 0.9990000128746033


class TokenSizes(NamedTuple):
    """Of the encoder. eps: of the norm before attention."""

    dim: int
    layers: int
    hidden: int
    eps: float = 1e-5


class WhisperMel(nn.Module):
    """Log mel spectrum of 16 kHz, 100 frames a second, without the last."""

    filters: Tensor
    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        filters = mel_filters(MELS, RATE_HZ, _FFT, RATE_HZ / 2)
        self.register_buffer("filters", filters, persistent=False)
        self.register_buffer("window", torch.hann_window(_FFT), persistent=False)

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 -> [MELS, samples // 160]."""
        spectrum = torch.stft(wav, _FFT, _HOP, window=self.window, return_complex=True)
        power = spectrum[:, :-1].abs().square()
        found = (self.filters @ power).clamp(min=_QUIETEST).log10()
        return (found.clamp(min=found.max() - _RANGE) + 4) / 4


class MemoryAttention(nn.Module):
    """Full attention, and beside it a depthwise convolution over the values."""

    def __init__(self, dim: int, rope: Rope) -> None:
        super().__init__()
        self.query, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim)
        self.fsmn_block = nn.Conv1d(dim, dim, _MEMORY, padding=_MEMORY // 2, groups=dim, bias=False)
        self.rope = rope

    def forward(self, x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """[frames, dim] -> the same."""
        q, k, v = (layer(x).unflatten(-1, (-1, _HEAD_DIM)) for layer in self._projections)
        q, k = self.rope.rotate(q, angles), self.rope.rotate(k, angles)
        values = v.flatten(-2)
        memory: Tensor = self.fsmn_block(values.T[None])[0].T + values
        attended: Tensor = self.out(dense_attention(q, k, v, None).flatten(-2))
        return attended + memory

    @property
    def _projections(self) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
        return self.query, self.key, self.value


class WhisperAttention(nn.Module):
    """Of all states to those that they see."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.query, self.value, self.out = (nn.Linear(dim, dim) for _ in range(3))
        self.key = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, shown: Tensor) -> Tensor:
        """[states, dim]; shown: [states or 1, states] bool -> the first's shape."""
        q, k, v = (
            to(x).unflatten(-1, (self._heads, -1)) for to in (self.query, self.key, self.value)
        )
        return self.out(dense_attention(q, k, v, shown).flatten(-2))


class WhisperBlock(nn.Module):
    """Pre-norm attention and a plain feed-forward network. eps: of the norm before attention."""

    def __init__(self, attention: nn.Module, dim: int, hidden: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.attn, self.attn_ln = attention, nn.LayerNorm(dim, eps)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))
        self.mlp_ln = nn.LayerNorm(dim)

    def forward(self, x: Tensor, told: Any) -> Tensor:
        """[frames, dim] -> the same; told: what the attention is besides."""
        x = x + self.attn(self.attn_ln(x), told)
        return x + self.mlp(self.mlp_ln(x))


class WhisperLayers(nn.Module):
    """Mel frames to a quarter as many states."""

    def __init__(self, c: TokenSizes) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(MELS, c.dim, 3, stride=2, padding=1)
        self.conv2 = nn.Conv1d(c.dim, c.dim, 3, stride=2, padding=1)
        self.rope = Rope(_HEAD_DIM, RopeConfig())
        self.blocks = nn.ModuleList(
            WhisperBlock(MemoryAttention(c.dim, self.rope), c.dim, c.hidden, c.eps)
            for _ in range(c.layers)
        )

    def forward(self, mel: Tensor) -> Tensor:
        """[MELS, frames] -> [frames / 4, rounded up, dim]."""
        x = nn.functional.gelu(self.conv1(mel[None]))
        x = nn.functional.gelu(self.conv2(x))[0].T
        angles = self.rope.angles(torch.arange(len(x), device=x.device))
        for block in self.blocks:
            x = block(x, angles)
        return x


class TernaryDigits(nn.Module):
    """Eight numbers a state, each rounded to one of three levels: the digits of an id."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.project_down = nn.Linear(dim, 8)

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] -> [...] int64, below TOKENS."""
        numbers: Tensor = self.project_down(x)
        digits = (numbers.tanh() * _LEVEL).round().long() + 1
        return (digits * 3 ** torch.arange(8, device=x.device)).sum(-1)


class SpeechTokens(nn.Module):
    """A recording at 16 kHz to its tokens."""

    def __init__(self, sizes: TokenSizes) -> None:
        super().__init__()
        self.mel = WhisperMel()
        self.encoder = WhisperLayers(sizes)
        self.quantizer = nn.ModuleDict({"_codebook": TernaryDigits(sizes.dim)})

    def forward(self, wav: Tensor) -> Tensor:
        """[samples] float32 in -1..1 -> [tokens] int64, one for each 640 samples begun."""
        return self.quantizer["_codebook"](self.encoder(self.mel(wav)))


# Recordings to what a flow codec and its talker are told of them (streaming-flow).


PROMPT_HZ: Final = 24_000
MEL_BANDS: Final = 80
_MEL_FFT, _MEL_HOP = 1920, 480


def prompt_mel(highest_hz: float) -> LogMel:
    """The mel frames that flows begin with, 50 a second."""
    return LogMel(MEL_BANDS, PROMPT_HZ, _MEL_FFT, _MEL_HOP, highest_hz)


class FlowReferences:
    """The networks that hear a recording. replicate: all tokens count, and mel frames are cut or
    the last one is repeated to be two a token. revision: names their weights.
    """

    def __init__(
        self,
        tokens: SpeechTokens,
        speaker: SpeakerVector,
        highest_hz: float,
        *,
        replicate: bool = False,
    ) -> None:
        self._tokens, self._speaker, self._replicate = tokens, speaker, replicate
        self._device = next(tokens.parameters()).device
        self._mel = prompt_mel(highest_hz).to(self._device)
        self.revision = digest((tokens, speaker))[:32]

    def derive(self, recording: bytes) -> Arrays:
        samples, rate = read_recording(recording)
        if rate < RATE_HZ:
            raise BadRecording(f"the recording has {rate} Hz, this model needs {RATE_HZ}")
        return self.hear(samples, rate)

    @torch.inference_mode()
    def hear(self, samples: Floats, rate: int) -> Arrays:
        """What `derive` gives of samples [samples] at RATE_HZ or more."""
        heard = self._on_device(windowed_sinc(samples, rate, RATE_HZ))
        mel = self._mel(self._on_device(windowed_sinc(samples, rate, PROMPT_HZ))[None])[0].T
        token = self._tokens(heard)
        if self._replicate:
            missing = max(0, 2 * len(token) - len(mel))
            mel = torch.cat((mel, mel[-1:].expand(missing, -1)))
        return conditions(token, mel, self._speaker(heard))

    def _on_device(self, samples: Floats) -> Tensor:
        return torch.from_numpy(samples).to(self._device)


def conditions(token: Tensor, mel: Tensor, speaker: Tensor) -> Arrays:
    """What codecs are told: ids [tokens], frames [frames, MEL_BANDS], the voice [192]; as many of
    the first two as both have.
    """
    count = min(len(token), len(mel) // 2)
    return {
        "token": token[:count].cpu().numpy().astype(np.int16),
        "mel": mel[: 2 * count].cpu().numpy(),
        "speaker": speaker[None].cpu().numpy(),
    }


def silence(tokens: int) -> Arrays:
    """Conditions to warm up with."""
    return conditions(torch.zeros(tokens), torch.zeros(2 * tokens, MEL_BANDS), torch.zeros(192))
