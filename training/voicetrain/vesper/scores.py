"""Rates and means over sentences, with intervals from a bootstrap over the sentences."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import jiwer
import numpy as np

from ttscommon.wire.fields import Array
from voicetrain.vesper.judges import Judges, judged, normal_text

DRAWS = 1000
RATE = 24_000


@dataclass(frozen=True)
class Interval:
    """A number, and where 95 of 100 resamplings of the sentences put it."""

    value: float
    low: float
    high: float

    def rounded(self) -> dict[str, float]:
        """For reports."""
        return {name: round(number, 4) for name, number in asdict(self).items()}


def ratio(parts: Sequence[float], wholes: Sequence[float], seed: int = 0) -> Interval:
    """Sum of parts over sum of wholes: word errors over words, or scores over ones for a mean."""
    above, below = np.asarray(parts, float), np.asarray(wholes, float)
    picks = np.random.default_rng(seed).integers(0, len(above), (DRAWS, len(above)))
    rates = above[picks].sum(1) / below[picks].sum(1)
    low, high = np.quantile(rates, (0.025, 0.975))
    return Interval(float(above.sum() / below.sum()), float(low), float(high))


def mean(values: Sequence[float]) -> Interval:
    """The mean of a number a sentence."""
    return ratio(values, [1.0] * len(values))


@dataclass
class Scores:
    """What the judges made of one system's sentences."""

    said: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    distillmos: list[float] = field(default_factory=list)
    dnsmos: list[float] = field(default_factory=list)

    def add(self, judges: Judges, text: str, sound: Array, *, dnsmos: bool = True) -> None:
        """Let the judges hear a sound [samples] at 24 kHz that should say `text`."""
        audio = judged(sound, RATE)
        self.said.append(normal_text(text))
        self.heard.append(normal_text(judges.heard(audio).text))
        self.distillmos.append(judges.distillmos(audio))
        if dnsmos:
            self.dnsmos.append(judges.dnsmos(audio))

    def report(self) -> dict[str, Any]:
        """WER, DistillMOS and DNSMOS with intervals, and what was misheard."""
        found: dict[str, Any] = {
            "sentences": len(self.said),
            "wer": word_error_rate(self.said, self.heard).rounded(),
            "distillmos": mean(self.distillmos).rounded(),
            "misheard": [
                list(words)
                for said, heard in zip(self.said, self.heard, strict=True)
                for words in misheard(said, heard)
            ],
        }
        if self.dnsmos:
            found["dnsmos"] = mean(self.dnsmos).rounded()
        return found

    def beside(self, other: "Scores") -> dict[str, dict[str, float]]:
        """By how much WER and DistillMOS are above those of another system of the same texts."""
        if self.said != other.said:
            raise ValueError("both must have said the same texts")
        errors = np.subtract(_errors(self.said, self.heard), _errors(other.said, other.heard))
        better = np.subtract(self.distillmos, other.distillmos)
        return {
            "wer": ratio(errors.tolist(), _words(self.said)).rounded(),
            "distillmos": mean(better.tolist()).rounded(),
        }


def word_error_rate(said: Sequence[str], heard: Sequence[str]) -> Interval:
    """WER over normalised texts."""
    return ratio(_errors(said, heard), _words(said))


def misheard(said: str, heard: str) -> list[tuple[str, str]]:
    """The words that differ, as they were said and as they were heard."""
    measured = jiwer.process_words(said, heard)
    (references,), (hypotheses,) = measured.references, measured.hypotheses
    return [
        (
            " ".join(references[chunk.ref_start_idx : chunk.ref_end_idx]),
            " ".join(hypotheses[chunk.hyp_start_idx : chunk.hyp_end_idx]),
        )
        for chunk in measured.alignments[0]
        if chunk.type != "equal"
    ]


def _errors(said: Sequence[str], heard: Sequence[str]) -> list[int]:
    measured = [jiwer.process_words(s, h) for s, h in zip(said, heard, strict=True)]
    return [m.substitutions + m.deletions + m.insertions for m in measured]


def _words(said: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in said]
