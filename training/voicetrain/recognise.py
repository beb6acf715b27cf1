"""Speech recognition by pocketsphinx, the judge of intelligibility, and its error rates."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pocketsphinx

from voicetrain.data import Array

SAMPLE_RATE = 16_000
SILENCE_S = 0.2
PEAK = 0.6
_FRAME_S = 0.01


@dataclass(frozen=True)
class Heard:
    """What the recogniser made of a sound: text, and (word, start_s, end_s) in the sound's time."""

    text: str
    words: tuple[tuple[str, float, float], ...]


def normal_text(text: str) -> str:
    """Lower-case words without punctuation or pronunciation numbers."""
    text = re.sub(r"\(\d+\)", "", text.lower().replace("-", " "))
    text = " ".join(re.sub(r"[^a-z' ]", " ", text).split())
    return text.replace("cannot", "can not")


class Recogniser:
    """The en-US model that comes with pocketsphinx's wheel, with its default language model.

    memory: a file of what was heard before, by the sound's hash; recognition is deterministic
    and takes longer than speaking. Several processes may append to it.
    """

    def __init__(self, memory: Path | None = None) -> None:
        self._decoder: Any = pocketsphinx.Decoder(samprate=SAMPLE_RATE, loglevel="FATAL")
        self._memory = memory
        self._known: dict[str, Heard] = {}
        if memory is not None and memory.exists():
            for line in memory.read_text("utf-8").splitlines():
                key, text, words = json.loads(line)
                self._known[key] = Heard(text, tuple((w, s, e) for w, s, e in words))

    def hear(self, audio: Array) -> Heard:
        """[samples] float at 16 kHz, any level."""
        key = hashlib.sha256(np.asarray(audio, np.float32).tobytes()).hexdigest()[:24]
        if key not in self._known:
            self._known[key] = heard = self._decode(audio)
            if self._memory is not None:
                with self._memory.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([key, heard.text, heard.words]) + "\n")
        return self._known[key]

    def _decode(self, audio: Array) -> Heard:
        # A little noise, because digital silence upsets the recogniser's level tracking.
        quiet = np.zeros(int(SILENCE_S * SAMPLE_RATE))
        sound = np.concatenate([quiet, audio, quiet])
        sound = sound * (PEAK / (np.abs(sound).max() + 1e-6))
        sound = sound + 1e-4 * np.random.default_rng(0).standard_normal(len(sound))
        self._decoder.start_utt()
        self._decoder.process_raw((sound * 32767).astype(np.int16).tobytes(), full_utt=True)
        self._decoder.end_utt()
        hypothesis = self._decoder.hyp()
        text = normal_text(hypothesis.hypstr) if hypothesis else ""
        words = []
        for segment in self._decoder.seg() or ():
            word = normal_text(segment.word)
            if word and segment.word[0].isalpha():
                start = segment.start_frame * _FRAME_S - SILENCE_S
                words.append((word, start, (segment.end_frame + 1) * _FRAME_S - SILENCE_S))
        return Heard(text, tuple(words))


@dataclass(frozen=True)
class ErrorRate:
    """A rate over a set, and the 95 % interval of a bootstrap over its sentences."""

    value: float
    low: float
    high: float

    def rounded(self) -> dict[str, float]:
        """For reports."""
        return {name: round(value, 4) for name, value in asdict(self).items()}


def _rate(errors: Array, lengths: Array, seed: int = 0, draws: int = 1000) -> ErrorRate:
    picks = np.random.default_rng(seed).integers(0, len(errors), (draws, len(errors)))
    rates = errors[picks].sum(1) / lengths[picks].sum(1)
    low, high = np.quantile(rates, (0.025, 0.975))
    return ErrorRate(float(errors.sum() / lengths.sum()), float(low), float(high))


def word_error_rate(said: Sequence[str], heard: Sequence[str]) -> ErrorRate:
    """WER over normalised texts."""
    measured = [jiwer.process_words(s, h) for s, h in zip(said, heard, strict=True)]
    errors = np.array([m.substitutions + m.deletions + m.insertions for m in measured])
    return _rate(errors, np.array([len(s.split()) for s in said]))


def character_error_rate(said: Sequence[str], heard: Sequence[str]) -> ErrorRate:
    """CER over normalised texts."""
    measured = [jiwer.process_characters(s, h) for s, h in zip(said, heard, strict=True)]
    errors = np.array([m.substitutions + m.deletions + m.insertions for m in measured])
    return _rate(errors, np.array([len(s) for s in said]))
