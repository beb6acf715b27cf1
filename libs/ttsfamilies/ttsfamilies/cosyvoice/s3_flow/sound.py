"""Mel frames of a passage to its samples, piece by piece, as if all of them had been there.

A frame is decoded in a window with as many others as its sound depends on. What is carried beside
the window are the pitches in it and the phases before it; noise is a function of the sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from ttsfamilies.cosyvoice.s3_flow.asked import Asked, Asking
from ttsfamilies.cosyvoice.s3_flow.hift import Hift, reach_of
from ttsfamilies.cosyvoice.s3_flow.sizes import FRAME_SAMPLES
from ttsfamilies.cosyvoice.s3_flow.source import Phase, turns, waves

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
