"""The mark in a stream, at places that the request's first sample fixes, and in a recording."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from gateway.audio.resample import Pcm
from gateway.audio.watermark.network import Floats, Perth, SpectrumFrames, levels, raised

_FRAMES: Final = 20
# The blocks before leave unmarked and at once, so that the first sound is not later.
_FIRST_BLOCK: Final = 2
_FULL_SCALE: Final = np.float32(32_768)


class BlockGrid:
    """Where the blocks of a stream lie, in samples of the request."""

    def __init__(self, perth: Perth, sample_rate: int) -> None:
        self.frames = SpectrumFrames(sample_rate, perth.bins)
        hop, window = self.frames.hop, self.frames.window
        self.reach = perth.encoder.reach
        self.step = _FRAMES * hop
        self.before = self.reach * hop + window // 2
        self.heard = (_FRAMES + 2 * self.reach - 1) * hop + window

    def first(self, block: int) -> int:
        """The first sample that the block changes; all before it are done when it begins."""
        return block * self.step - self.frames.window // 2

    def hears_from(self, block: int) -> int:
        """The first of the `heard` samples that it depends on."""
        return block * self.step - self.before

    def begin(self, start: int) -> int:
        """The first block of a stream that begins with the request's sample `start`."""
        return max(_FIRST_BLOCK, -(-(start + self.before) // self.step)) if start else _FIRST_BLOCK

    @property
    def lead(self) -> int:
        """Samples that a stream has to begin earlier, to be marked from where it is wanted."""
        return self.before + self.step + self.frames.window // 2


class WatermarkedStream:
    """Adds the mark to one request's samples, of which `start` is the first that comes."""

    def __init__(self, perth: Perth, sample_rate: int, start: int = 0) -> None:
        self._perth = perth
        self._grid = BlockGrid(perth, sample_rate)
        self._block = self._grid.begin(start)
        self._given = self._origin = start
        self._sound: Floats = np.zeros(0, np.float32)
        self._mark: Floats = np.zeros(0, np.float32)

    def feed(self, pcm: Pcm) -> Pcm:
        """What is done now."""
        self._extend(pcm.astype(np.float32))
        while self._end >= self._grid.hears_from(self._block) + self._grid.heard:
            self._add_block()
        return self._take(self._end)

    def flush(self) -> Pcm:
        """The rest: silence follows the end."""
        end = self._end
        while self._grid.first(self._block) < end:
            missing = self._grid.hears_from(self._block) + self._grid.heard - self._end
            self._extend(np.zeros(max(missing, 0), np.float32))
            self._add_block()
        return self._take(end)

    @property
    def _end(self) -> int:
        return self._origin + len(self._sound)

    def _extend(self, sound: Floats) -> None:
        self._sound = np.concatenate([self._sound, sound])
        self._mark = np.concatenate([self._mark, np.zeros_like(sound)])

    def _add_block(self) -> None:
        grid, block = self._grid, self._block
        mark = self._marked(self._heard(grid.hears_from(block), grid.heard))
        at = grid.first(block) - self._origin
        self._mark[at : at + len(mark)] += mark
        self._block += 1

    def _heard(self, first: int, count: int) -> Floats:
        """Samples of full scale 1; silence lies before the request."""
        at = first - self._origin
        part = self._sound[max(at, 0) : at + count] / _FULL_SCALE
        return np.concatenate([np.zeros(count - len(part), np.float32), part])

    def _marked(self, sound: Floats) -> Floats:
        """[heard] -> what to add, from the block's first sample on."""
        grid = self._grid
        spectra = grid.frames.spectra(sound)
        inner = spectra[grid.reach : grid.reach + _FRAMES]
        return grid.frames.sound(raised(inner, self._perth.encoder(levels(spectra))))

    def _take(self, most: int) -> Pcm:
        until = max(self._given, min(most, self._grid.first(self._block)))
        part = slice(self._given - self._origin, until - self._origin)
        made = self._sound[part] + self._mark[part] * _FULL_SCALE
        self._given = until
        self._forget(min(until, self._grid.hears_from(self._block)))
        return np.clip(np.rint(made), -32_768, 32_767).astype(np.int16)

    def _forget(self, before: int) -> None:
        old = max(0, before - self._origin)
        self._sound, self._mark = self._sound[old:], self._mark[old:]
        self._origin += old


CUT_S: Final = 5.0
# docs/provenance.md has the rates of both mistakes at it.
MARKED: Final = 0.5
_LEAST_S: Final = 1.0


@dataclass(frozen=True)
class CutScore:
    """Seconds of a recording, and how sure the detector is that they are marked: 0 to 1."""

    start_s: float
    end_s: float
    score: float

    @property
    def marked(self) -> bool:
        return self.score > MARKED


def scores_of_cuts(perth: Perth, sound: Floats, sample_rate: int) -> Iterator[CutScore]:
    """[samples] of full scale 1, cut by cut; a rest that is too short counts to the last cut."""
    frames = SpectrumFrames(sample_rate, perth.bins)
    cut, least = round(CUT_S * sample_rate), round(_LEAST_S * sample_rate)
    start = 0
    while len(sound) - start >= frames.window:
        end = len(sound) if len(sound) - start < cut + least else start + cut
        score = perth.heard(levels(frames.spectra(sound[start:end])))
        yield CutScore(start / sample_rate, end / sample_rate, score)
        start = end
