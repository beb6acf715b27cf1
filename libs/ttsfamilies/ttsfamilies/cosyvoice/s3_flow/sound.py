"""Mel frames of a passage to its samples, piece by piece, as if all of them had been there.

A frame is decoded in a window with as many others as its sound depends on. What is carried beside
the window are the pitches in it and the phases before it; noise is a function of the sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Final, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from ttsfamilies.base.codec.windowed import Noise, keyed, keyed_uniform
from ttsfamilies.cosyvoice.s3_flow.hift import Hift
from ttsfamilies.cosyvoice.s3_flow.sizes import FRAME_SAMPLES, SAMPLE_RATE

# HiFT's source: harmonics of the pitch where there is a voice, and noise.
#
# Three ways of the phase are published. Whichever it is, what a stretch has to know of those
# before it is one number a harmonic, summed in float64: turns up to its first frame.


FRAMES: Final = 15_000
_SEED: Final = 0
# Blocks of one request's draws: harmonics, then what their phases begin with, then mel bands.
_PHASES: Final = 100
_BANDS: Final = 200

# (first, count, device): of mel frames [mels, frames], of samples [harmonics, samples].
Frames: TypeAlias = Callable[[int, int, torch.device], Tensor]


@dataclass(frozen=True)
class Draws:
    """Of a request. frames: by frame from the prompt's first on. normal, uniform: by (block,
    first, count, device).
    """

    frames: Frames
    normal: Noise
    uniform: Noise


def fixed(seed: int, mels: int) -> Draws:
    """CosyVoice's: every stream's flow begins with the same table, as published."""

    def frames(first: int, count: int, device: torch.device) -> Tensor:
        at = torch.arange(first, first + count) % FRAMES
        return _table(mels)[:, at].to(device)

    return Draws(frames, keyed(seed), keyed_uniform(seed))


def fresh(seed: int, mels: int) -> Draws:
    """Chatterbox's: each request begins elsewhere."""
    normal = keyed(seed)

    def frames(first: int, count: int, device: torch.device) -> Tensor:
        return torch.stack([normal(_BANDS + band, first, count, device) for band in range(mels)])

    return Draws(frames, normal, keyed_uniform(seed))


def begin(draws: Draws, harmonics: int, device: torch.device) -> Tensor:
    """[harmonics] float64, turns that phases begin with; none for the pitch itself."""
    found = torch.cat([draws.uniform(_PHASES + i, 0, 1, device) for i in range(harmonics)])
    found[0] = 0.5
    return found.double() - 0.5


@cache
def _table(mels: int) -> Tensor:
    """[mels, FRAMES], which the reference draws when it is made; it is in no checkpoint."""
    return torch.randn(1, mels, FRAMES, generator=torch.Generator().manual_seed(_SEED))[0]


_LOUD: Final = 0.1
_VOICED_HZ: Final = 10.0
_VOICED_NOISE: Final = 0.003
_UNVOICED_NOISE: Final = _LOUD / 3


class Phase(Enum):
    """Between two frames: on a straight line from centre to centre (CosyVoice 2), not at all
    (CosyVoice 3), or at each frame's own pace (Chatterbox).
    """

    LINE = "line"
    HELD = "held"
    PACE = "pace"


def turns(pitch: Tensor, harmonics: int, rate: int = SAMPLE_RATE) -> Tensor:
    """[frames] Hz float64 -> [harmonics, frames], of a sample."""
    times = torch.arange(1, harmonics + 1, dtype=pitch.dtype, device=pitch.device)
    return (pitch * times[:, None] / rate) % 1


def waves(
    phase: Phase,
    pitch: Tensor,
    before: Tensor,
    begin: Tensor,
    noise: Tensor,
    rate: int = SAMPLE_RATE,
) -> Tensor:
    """[harmonics, samples] float64 of frames whose pitch is [frames] Hz.

    before: [harmonics], turns of all frames before. begin: [harmonics], where the stream's phases
    began, in turns. noise: [harmonics, samples]. rate: of samples, in Hz.
    """
    hop = noise.shape[1] // len(pitch)
    pace = turns(pitch, len(before), rate)
    after = before[:, None] + pace.cumsum(1)
    if phase is Phase.LINE:
        wide = nn.functional.interpolate(after[None] * hop, scale_factor=hop, mode="linear")[0]
    elif phase is Phase.HELD:
        wide = _wide(after * hop, hop)
    else:
        within = torch.arange(1, hop + 1, dtype=pace.dtype, device=pace.device)
        whole = (after - pace)[..., None] * hop + pace[..., None] * within
        wide = whole.flatten(1)
    sines = torch.sin(2 * math.pi * ((wide + begin[:, None]) % 1))
    voiced = _wide((pitch > _VOICED_HZ).to(pitch.dtype), hop)
    loud = voiced * _VOICED_NOISE + (1 - voiced) * _UNVOICED_NOISE
    return sines * _LOUD * voiced + loud * noise


def _wide(x: Tensor, hop: int) -> Tensor:
    return x.repeat_interleave(hop, -1)


# Several streams through one network as one batch, wherever their shapes are the same.
#
# What a stream needs of a network it asks for in the middle of its own work, and goes on with the
# answer. Nothing is padded: of the other rows only their number can be told from a row's
# rounding.


T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """What a network is to make of one stream's tensors; it takes and gives one dimension more."""

    net: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]

    @property
    def alike(self) -> tuple[object, ...]:
        """The same for all that can be one batch."""
        return (self.net, *(part.shape for part in self.inputs))


Asking: TypeAlias = Generator[Asked, Tensor, T]


def together(streams: Sequence[Asking[T]]) -> list[T]:
    """What each stream's work returns."""
    found: dict[int, T] = {}
    asked = dict[int, Asked]()
    for i in range(len(streams)):
        _go_on(streams, i, None, asked, found)
    while asked:
        waiting, asked = asked, {}
        for i, answer in _answers(waiting).items():
            _go_on(streams, i, answer, asked, found)
    return [found[i] for i in range(len(streams))]


def _go_on(
    streams: Sequence[Asking[T]],
    i: int,
    answer: Tensor | None,
    asked: dict[int, Asked],
    found: dict[int, T],
) -> None:
    """Let a stream work until it asks again or is done."""
    try:
        asked[i] = next(streams[i]) if answer is None else streams[i].send(answer)
    except StopIteration as end:
        found[i] = end.value


def _answers(asked: Mapping[int, Asked]) -> dict[int, Tensor]:
    alike: dict[tuple[object, ...], list[int]] = {}
    for i, one in asked.items():
        alike.setdefault(one.alike, []).append(i)
    found: dict[int, Tensor] = {}
    for every in alike.values():
        inputs = zip(*(asked[i].inputs for i in every), strict=True)
        rows = asked[every[0]].net(*(torch.stack(parts) for parts in inputs))
        found |= dict(zip(every, rows, strict=True))
    return found


# (first sample of the passage, samples) -> [harmonics, samples] float64.
Drawn: TypeAlias = Callable[[int, int], Tensor]


@dataclass(frozen=True)
class MelWindow:
    """first: the frame that the window begins with. mel: [mels, frames] from it on. pitch: of as
    many of them as are known, float64. source: [samples], as far as it is final. before: turns of
    the frames before the window, [harmonics] float64; begin: those that phases begin with. sent:
    frames whose samples were given.
    """

    mel: Tensor
    pitch: Tensor
    source: Tensor
    before: Tensor
    begin: Tensor
    first: int = 0
    sent: int = 0

    @property
    def known(self) -> int:
        """Frames of the passage so far."""
        return self.first + self.mel.shape[1]


class Sound:
    """lag: mel frames that are held back until the last one is known."""

    def __init__(self, net: Hift, phase: Phase) -> None:
        self.net, self.phase = net, phase
        self._reach = net.reach
        self.lag = self._reach.ahead + self._reach.pitch_ahead

    def window(self, begin: Tensor) -> MelWindow:
        """Of a passage that begins. begin: [harmonics], turns that its phases begin with."""
        weight = self.net.conv_pre.weight
        none = weight.new_zeros(0, dtype=torch.float64)
        before, source = torch.zeros_like(begin), weight.new_zeros(0)
        return MelWindow(weight.new_zeros(self.net.sizes.mels, 0), none, source, before, begin)

    def advance(
        self, window: MelWindow, mel: Tensor, noise: Drawn, *, upto: int, complete: bool
    ) -> Asking[tuple[MelWindow, Tensor]]:
        """New frames [mels, frames] -> samples of those before `upto`, and what to go on with.

        complete: no frame follows.
        """
        w = replace(window, mel=torch.cat((window.mel, mel), 1))
        pitch = yield from self._pitch(w, final=complete)
        w = replace(w, pitch=pitch)
        end = min(upto, w.known if complete else w.known - self.lag)
        if end <= w.sent:
            return w, w.mel.new_zeros(0)
        source = self._source(w, noise)
        final = source if complete else source[:-FRAME_SAMPLES]
        samples = yield Asked(self.net.decode, (w.mel[:, : len(w.pitch)], source))
        w = replace(w, source=final)
        start = (w.sent - w.first) * FRAME_SAMPLES
        return self._moved(w, end), samples[start : (end - w.first) * FRAME_SAMPLES]

    def _source(self, w: MelWindow, noise: Drawn) -> Tensor:
        """Of all frames whose pitch is known. What a frame's last samples are depends on the next
        frame's pitch, and its first ones on the one before.
        """
        known = len(w.source) // FRAME_SAMPLES
        start = max(0, known - 1)
        count = (len(w.pitch) - start) * FRAME_SAMPLES
        before = w.before + turns(w.pitch[:start], len(w.before)).sum(1)
        drawn = noise((w.first + start) * FRAME_SAMPLES, count)
        harmonics = waves(self.phase, w.pitch[start:], before, w.begin, drawn)
        found = self.net.source(harmonics.to(w.mel.dtype))
        return torch.cat((w.source, found[(known - start) * FRAME_SAMPLES :]))

    def _pitch(self, w: MelWindow, *, final: bool) -> Asking[Tensor]:
        """Those that were known, and those that now are: of frames with all that they depend on."""
        end = w.mel.shape[1] - (0 if final else self._reach.pitch_ahead)
        known = len(w.pitch)
        if end <= known:
            return w.pitch
        start = max(0, known - self._reach.pitch_back)
        found = yield Asked(self.net.f0_predictor, (w.mel[:, start:].double(),))
        return torch.cat((w.pitch, found[known - start : end - start]))

    def _moved(self, w: MelWindow, sent: int) -> MelWindow:
        """Without the frames that nothing to come depends on."""
        gone = max(0, sent - self._reach.back - w.first)
        pace = turns(w.pitch[:gone], len(w.before))
        before = (w.before + pace.sum(1)) % 1
        mel, pitch, source = w.mel[:, gone:], w.pitch[gone:], w.source[gone * FRAME_SAMPLES :]
        return MelWindow(mel, pitch, source, before, w.begin, w.first + gone, sent)
