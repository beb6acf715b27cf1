"""Voices of Chatterbox: the one that is built in, and those of recordings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ttscommon.engine.nn.weights import Shards, Subset, digest, fill, same
from ttscommon.sound.recordings import BadRecording, Floats, read_recording
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.lm.recordings import mel_filters, resampled, windowed_sinc
from ttsfamilies.base.s3.references import PROMPT_HZ, SpeechTokens, conditions, prompt_mel
from ttsfamilies.base.s3.speaker import SpeakerVector
from ttsfamilies.base.s3.weights import load_speaker, load_tokens
from ttsfamilies.chatterbox.facts import SPEAKER, T3Sizes
from ttsfamilies.chatterbox.request import HEARD, SPEAKER_ROW

# Of the head's high shelf and of the high pass: gain in dB of the one, quality, frequency in Hz.
_SHELF: Final = 4.0, 2**-0.5, 1500.0
_PASS: Final = 0.5, 38.0
_BLOCK_S, _OVERLAP = 0.4, 0.75
_OFFSET, _SILENT, _BELOW = -0.691, -70.0, -10.0


def levelled(samples: Floats, rate: int, target: float) -> Floats:
    """[samples] with a loudness of `target` LUFS; silence as it is."""
    gain = 10 ** ((target - loudness(samples, rate)) / 20)
    return (samples * gain).astype(np.float32) if np.isfinite(gain) else samples


def loudness(samples: Floats, rate: int) -> float:
    """LUFS of [samples], gated; -inf of silence."""
    heard = _weighted(samples, rate)
    length, step = _BLOCK_S * rate, _BLOCK_S * (1 - _OVERLAP) * rate
    count = round((len(heard) / rate - _BLOCK_S) / (_BLOCK_S * (1 - _OVERLAP))) + 1
    starts = [int(i * step) for i in range(max(0, count))]
    blocks = [heard[at : int(at + length)] for at in starts]
    power = np.array([np.square(block).sum() / length for block in blocks])
    with np.errstate(divide="ignore"):
        levels = _OFFSET + 10 * np.log10(power)
        loud = levels >= _SILENT
        if not loud.any():
            return -np.inf
        floor = _OFFSET + 10 * np.log10(power[loud].mean()) + _BELOW
        return float(_OFFSET + 10 * np.log10(power[loud & (levels > floor)].mean()))


def _weighted(samples: Floats, rate: int) -> npt.NDArray[np.float64]:
    """Both filters at once, by their response; what rings on dies within the second behind."""
    size = len(samples) + rate
    z = np.exp(-2j * np.pi * np.fft.rfftfreq(size))
    response = np.ones_like(z)
    for b, a in (_shelf(*_SHELF, rate), _high_pass(*_PASS, rate)):
        response *= np.polyval(b[::-1], z) / np.polyval(a[::-1], z)
    filtered = np.fft.irfft(np.fft.rfft(samples, size) * response, size)
    return np.asarray(filtered[: len(samples)])


Polynomials = tuple[list[float], list[float]]


def _shelf(gain: float, quality: float, hz: float, rate: int) -> Polynomials:
    amplitude = 10 ** (gain / 40)
    cosine, alpha = _angle(quality, hz, rate)
    root = 2 * amplitude**0.5 * alpha
    up, down = amplitude + 1, amplitude - 1
    b = [up + down * cosine + root, -2 * (down + up * cosine), up + down * cosine - root]
    a = [up - down * cosine + root, 2 * (down - up * cosine), up - down * cosine - root]
    return [amplitude * value for value in b], a


def _high_pass(quality: float, hz: float, rate: int) -> Polynomials:
    cosine, alpha = _angle(quality, hz, rate)
    b = [(1 + cosine) / 2, -(1 + cosine), (1 + cosine) / 2]
    return b, [1 + alpha, -2 * cosine, 1 - alpha]


def _angle(quality: float, hz: float, rate: int) -> tuple[float, float]:
    turn = 2 * np.pi * hz / rate
    return float(np.cos(turn)), float(np.sin(turn) / (2 * quality))


RATE_HZ: Final = 16_000
_MELS, _HIDDEN, _LAYERS = 40, 256, 3
_FFT, _HOP = 400, 160
_WINDOW: Final = 160
# 1.3 windows a second.
_STEP: Final = 77
_LEAST_SHARE: Final = 0.8
_QUIET_DB: Final = 20.0
_TRIM_FRAME, _TRIM_HOP = 2048, 512


def trimmed(samples: Floats) -> Floats:
    """Without what is 20 dB below the loudest frame, at both ends; librosa's `effects.trim`."""
    half = _TRIM_FRAME // 2
    padded = np.pad(samples.astype(np.float64), half)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _TRIM_FRAME)[::_TRIM_HOP]
    power = np.square(frames).mean(1)
    loud = np.flatnonzero(power > power.max() * 10 ** (-_QUIET_DB / 10))
    if not len(loud):
        return samples
    return samples[loud[0] * _TRIM_HOP : (loud[-1] + 1) * _TRIM_HOP]


def windows(frames: int) -> int:
    """How many windows a recording of so many frames has; the last may reach beyond it."""
    count, rest = divmod(max(frames - _WINDOW + _STEP, 0), _STEP)
    return count + (not count or (rest + _WINDOW - _STEP) / _WINDOW >= _LEAST_SHARE)


class VoiceVector(nn.Module):
    """A recording at 16 kHz to what T3 knows of its voice."""

    filters: Tensor
    hann: Tensor

    def __init__(self) -> None:
        super().__init__()
        filters = mel_filters(_MELS, RATE_HZ, _FFT, RATE_HZ / 2)
        self.register_buffer("filters", filters, persistent=False)
        self.register_buffer("hann", torch.hann_window(_FFT), persistent=False)
        self.lstm = nn.LSTM(_MELS, _HIDDEN, _LAYERS, batch_first=True)
        self.proj = nn.Linear(_HIDDEN, _HIDDEN)

    def forward(self, samples: Tensor) -> Tensor:
        """[samples] float32, trimmed -> [256]."""
        spectrum = torch.stft(samples, _FFT, _HOP, window=self.hann, return_complex=True)
        mel = (self.filters @ spectrum.abs().square()).T
        count = windows(len(mel))
        end = _WINDOW + _STEP * (count - 1)
        mel = nn.functional.pad(mel, (0, 0, 0, max(0, end - len(mel))))[:end]
        partial = mel.unfold(0, _WINDOW, _STEP).mT
        _, (hidden, _) = self.lstm(partial)
        each = nn.functional.normalize(self.proj(hidden[-1]).relu(), dim=1)
        return nn.functional.normalize(each.mean(0), dim=0)


BUILT_IN: Final = "default"
_VOICE_ROW, _VOICE_TOKENS = "t3.speaker_emb", "t3.cond_prompt_speech_tokens"
_TOKENS, _SPEAKER = "tokenizer.", "speaker_encoder."
_HIGHEST_HZ: Final = 8000.0
_FLOW_S: Final = 10
_LEAST_TURBO_S: Final = 5
_LOUDNESS: Final = -27.0


# Of training, beside the weights.
_BOOKS: Final = ("num_batches_tracked", "_mel_filters", "tokenizer.window", "freqs_cis")


class Hearing:
    """The networks that hear a recording. revision: names their weights."""

    def __init__(
        self, c: T3Sizes, tokens: SpeechTokens, speaker: SpeakerVector, voice: VoiceVector
    ) -> None:
        self._c, self._tokens, self._speaker, self._voice = c, tokens, speaker, voice
        self._device = next(voice.parameters()).device
        self._mel = prompt_mel(_HIGHEST_HZ).to(self._device)
        self.revision = digest((tokens, speaker, voice))[:32]

    @classmethod
    def load(cls, checkpoint: Path, device: str, c: T3Sizes) -> Self | None:
        """Of a checkpoint's folder; None where they are not all there. Raises CheckpointError."""
        shards = Shards.of(checkpoint)
        parts = [Subset(shards, names, _BOOKS) for names in ((_TOKENS,), (_SPEAKER,), _VOICE)]
        if not all(part.shapes for part in parts):
            return None
        tokens, speaker, own = parts
        voice = VoiceVector()
        fill(voice, {name: same(name) for name in voice.state_dict()}, own, others=_UNUSED)
        return cls(
            c,
            load_tokens(tokens, device, prefix=_TOKENS),
            load_speaker(speaker, device, prefix=_SPEAKER),
            voice.eval().requires_grad_(False).to(device),
        )

    @torch.inference_mode()
    def derive(self, recording: bytes) -> Arrays:
        """See Family.derive. The package resamples in two ways, and so does this."""
        samples = resampled(*read_recording(recording), PROMPT_HZ)
        if self._c.gpt:
            if len(samples) <= _LEAST_TURBO_S * PROMPT_HZ:
                raise BadRecording(f"the recording is not longer than {_LEAST_TURBO_S} s")
            samples = levelled(samples, PROMPT_HZ, _LOUDNESS)
        heard, flow = resampled(samples, PROMPT_HZ, RATE_HZ), samples[: _FLOW_S * PROMPT_HZ]
        low, most = self._on_device(windowed_sinc(flow, PROMPT_HZ, RATE_HZ)), self._c.heard
        told = self._tokens(self._on_device(heard[: self._c.heard_s * RATE_HZ]))[:most]
        mel = self._mel(self._on_device(flow)[None])[0].T
        return {
            **conditions(self._tokens(low), mel, self._speaker(low)),
            HEARD: told.cpu().numpy().astype(np.int16),
            SPEAKER_ROW: self._voice(self._on_device(trimmed(heard)))[None].cpu().numpy(),
        }

    def _on_device(self, samples: Floats) -> torch.Tensor:
        return torch.from_numpy(samples).to(self._device)


_VOICE: Final = ("lstm.", "proj.", "similarity_")
_UNUSED: Final = ("similarity_",)


def built_in(checkpoint: Path) -> Mapping[str, Arrays]:
    """What the talker is told of the checkpoint's own voice, by its name; empty without one."""
    shards = Shards.of(checkpoint)
    if not {_VOICE_ROW, _VOICE_TOKENS} <= shards.shapes.keys():
        return {}
    speaker = shards.read(_VOICE_ROW).float().reshape(1, SPEAKER).numpy()
    tokens = shards.ids(_VOICE_TOKENS).numpy().astype(np.int16)
    return {BUILT_IN: {SPEAKER_ROW: speaker, HEARD: tokens}}


def silent_reference() -> Arrays:
    """What to warm up with where no voice is built in."""
    return {SPEAKER_ROW: np.zeros((1, SPEAKER), np.float32), HEARD: np.zeros(1, np.int16)}
