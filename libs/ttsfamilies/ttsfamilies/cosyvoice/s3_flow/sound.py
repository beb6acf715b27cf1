"""Mel frames of a passage to its samples, piece by piece, as if all of them had been there.

A frame is decoded in a window with as many others as its sound depends on. What is carried beside
the window are the pitches in it and the phases before it; noise is a function of the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import torch
from torch import Tensor

from ttsfamilies.cosyvoice.s3_flow.hift import Hift, reach_of
from ttsfamilies.cosyvoice.s3_flow.sizes import FRAME_SAMPLES
from ttsfamilies.cosyvoice.s3_flow.source import Phase, turns, waves

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
        self._reach = reach_of(net.sizes)
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
