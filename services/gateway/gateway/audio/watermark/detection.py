"""The mark in a recording: how sure Perth is of each few seconds of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.audio.watermark.network import Floats, Perth
from gateway.audio.watermark.spectrum import SpectrumFrames, levels

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
