"""Watermarks of speech, judged: python -m tests.evaluation.watermarks --weights perth.safetensors

Cost, detection behind codecs in cuts of 5 s, what judges of speech say, and false alarms. The voice
is the default one. docs/provenance.md has the results, and the way to the weights.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import soxr
import torch

from gateway.audio import AudioFormat, Pcm
from gateway.audio.encoders.chosen import MULAW
from gateway.audio.formats import Codec
from gateway.audio.watermark import MARKED, Perth, WatermarkedStream, scores_of_cuts
from gateway.audio.watermark.stream import CUT_S
from tests.unit.gateway.audio.test_encoders import RATE, decoded, encoded
from voicetrain.corpus import everyday_sentences, held_out
from voicetrain.vesper.judges import Judges
from voicetrain.vesper.scores import Scores
from voicetrain.vesper.teacher import Teacher
from voicetrain.vesper.voice import Voice

_CHUNK: Final = 3840
_FULL: Final = np.float32(32_768)
_MOST_TEXTS: Final = 10_000
_BATCH: Final = 48
_SURE: Final = 0.9
_TELEPHONE_HZ: Final = 8000


@dataclass(frozen=True)
class Evaluated:
    """Perth, the voice, and how much of it is tried."""

    perth: Perth
    voice: Voice
    options: argparse.Namespace

    @property
    def texts(self) -> list[str]:
        return held_out("easy")[: self.options.sentences]

    @cached_property
    def sentences(self) -> list[Pcm]:
        """Each text spoken, 24 kHz."""
        return list(passages(self.voice, self.texts))

    @cached_property
    def sound(self) -> Pcm:
        return np.concatenate(self.sentences)


def passages(voice: Voice, texts: Sequence[str], seed: int = 0) -> Iterator[Pcm]:
    """Each text spoken, 24 kHz."""
    for spoken in voice.spoken(texts, seed=seed):
        yield as_pcm(voice.sound(spoken))


def as_pcm(sound: Any) -> Pcm:
    """[samples] of full scale 1."""
    return _rounded(sound * _FULL)


def marked(perth: Perth, pcm: Pcm) -> Pcm:
    """As a gateway marks it, chunk by chunk."""
    stream = WatermarkedStream(perth, RATE)
    parts = [stream.feed(pcm[at : at + _CHUNK]) for at in range(0, len(pcm), _CHUNK)]
    return np.concatenate([*parts, stream.flush()])


def score(perth: Perth, pcm: Pcm, rate: int) -> float:
    """The highest of its cuts."""
    return max(one.score for one in scores_of_cuts(perth, (pcm / _FULL).astype(np.float32), rate))


def cost(e: Evaluated) -> dict[str, float]:
    """Milliseconds of a core for a second of sound: to mark it, and to look for the mark."""
    seconds = len(e.sound) / RATE
    began = time.process_time()
    sound = marked(e.perth, e.sound)
    between = time.process_time()
    score(e.perth, sound, RATE)
    ended = time.process_time()
    power = np.mean(e.sound.astype(float) ** 2) / np.mean((sound.astype(float) - e.sound) ** 2)
    return {
        "seconds": seconds,
        "marking_ms": 1e3 * (between - began) / seconds,
        "detecting_ms": 1e3 * (ended - between) / seconds,
        "signal_to_mark_db": 10 * float(np.log10(power)),
    }


# What becomes of sound on its way; samples, and their rate in Hz.
Treated = tuple[Pcm, int]


def packed(pcm: Pcm, codec: Codec, bit_rate: int) -> Treated:
    """Through one of the gateway's encoders, and FFmpeg's decoder."""
    return decoded(encoded(AudioFormat(codec, bit_rate=bit_rate), pcm, len(pcm))), RATE


def telephone(pcm: Pcm) -> Treated:
    """8 kHz, G.711 mu-law and back."""
    codes = MULAW[resampled(pcm, RATE, _TELEPHONE_HZ).astype(int) + 32_768]
    every = np.arange(-32_768, 32_768)
    meant = np.array([every[code == MULAW].mean() for code in range(256)])
    return np.rint(meant[codes]).astype(np.int16), _TELEPHONE_HZ


def faster(pcm: Pcm, factor: float) -> Treated:
    """Played faster, pitch and all."""
    return resampled(pcm, factor * RATE, RATE), RATE


def noisy(pcm: Pcm, decibels: float) -> Treated:
    """White noise, so far below the speech."""
    level = np.sqrt(np.mean(pcm.astype(float) ** 2)) * 10 ** (-decibels / 20)
    return _rounded(pcm + level * np.random.default_rng(0).standard_normal(len(pcm))), RATE


def resampled(pcm: Pcm, source_hz: float, target_hz: float) -> Pcm:
    return _rounded(soxr.resample(pcm.astype(np.float32), source_hz, target_hz))


def _rounded(sound: Any) -> Pcm:
    return np.clip(np.rint(sound), -32_768, 32_767).astype(np.int16)


TREATMENTS: Final[dict[str, Callable[[Pcm], Treated]]] = {
    "nothing": lambda pcm: (pcm, RATE),
    "mp3, 64 kbit/s": partial(packed, codec="mp3", bit_rate=64_000),
    "Opus, 24 kbit/s": partial(packed, codec="opus", bit_rate=24_000),
    "Opus, 12 kbit/s": partial(packed, codec="opus", bit_rate=12_000),
    "mu-law, 8 kHz": telephone,
    "5 % faster": partial(faster, factor=1.05),
    "white noise 20 dB below": partial(noisy, decibels=20),
}


def detection(e: Evaluated) -> dict[str, Any]:
    """Scores of cuts of 5 s from anywhere, by what was done to the whole before."""
    sounds = {"marked": marked(e.perth, e.sound), "unmarked": e.sound}
    return {
        name: {kind: _found(e, *treat(pcm)) for kind, pcm in sounds.items()}
        for name, treat in TREATMENTS.items()
    }


def _found(e: Evaluated, pcm: Pcm, rate: int) -> dict[str, float]:
    return _spread([score(e.perth, cut, rate) for cut in _cuts(pcm, rate, e.options.cuts)])


def _cuts(pcm: Pcm, rate: int, count: int) -> Iterator[Pcm]:
    length = round(CUT_S * rate)
    for start in np.random.default_rng(1).integers(0, len(pcm) - length, count):
        yield pcm[start : start + length]


def _spread(scores: Sequence[float]) -> dict[str, float]:
    found = np.asarray(scores)
    low, middle, high = np.quantile(found, (0.01, 0.5, 0.99))
    return {
        "called marked": float(np.mean(found > MARKED)),
        **{name: round(float(v), 3) for name, v in (("p1", low), ("p50", middle), ("p99", high))},
    }


def judges(e: Evaluated) -> dict[str, Any]:
    """What Whisper and DistillMOS say of the same sentences, marked and not."""
    ears = Judges(e.options.out.with_suffix(".jsonl"))
    plain, changed = Scores(), Scores()
    for text, pcm in zip(e.texts, e.sentences, strict=True):
        plain.add(ears, text, pcm / _FULL, dnsmos=False)
        changed.add(ears, text, marked(e.perth, pcm) / _FULL, dnsmos=False)
    reports = {"unmarked": plain.report(), "marked": changed.report()}
    return {**reports, "marked beside unmarked": changed.beside(plain)}


def vesper(e: Evaluated) -> Iterator[Pcm]:
    """Everyday sentences by the default voice."""
    texts = everyday_sentences(_MOST_TEXTS, random.Random(3))
    for first in range(0, len(texts), _BATCH):
        yield from passages(e.voice, texts[first : first + _BATCH], seed=first)


def hibari(e: Evaluated) -> Iterator[Pcm]:
    """The same by the default voice's teacher, another network."""
    del e
    teacher = Teacher()
    for text in everyday_sentences(_MOST_TEXTS, random.Random(4)):
        yield as_pcm(teacher.sound(text))


def other_sounds(e: Evaluated) -> Iterator[Pcm]:
    """Chords, sweeps, white and brown noise, each of 30 s at some loudness."""
    del e
    dice, times = np.random.default_rng(5), np.arange(30 * RATE) / RATE
    while True:
        notes = dice.choice(110 * 2 ** (np.arange(36) / 12), 3)
        swell = 0.5 + 0.5 * np.sin(2 * np.pi * times * dice.uniform(0.2, 3))
        waves = [np.sin(2 * np.pi * note * h * times) / h for note in notes for h in range(1, 6)]
        sweep = np.sin(2 * np.pi * dice.uniform(5, 60) * times**2)
        white = dice.standard_normal(len(times))
        for sound in (sum(waves) * swell, sweep, white, np.cumsum(white - white.mean())):
            yield as_pcm(sound / np.abs(sound).max() * 10 ** dice.uniform(-2, 0) * 0.98)


UNMARKED: Final = {"chords, sweeps, noise": other_sounds, "hibari-tts": hibari, "vesper": vesper}


def alarms(e: Evaluated) -> dict[str, Any]:
    """Cuts of unmarked sound that are called marked, over so many hours of each kind."""
    found = {}
    for name, sounds in UNMARKED.items():
        found[name] = _alarms(e.perth, sounds(e), 3600 * e.options.hours)
        print(name, found[name], flush=True)
    return found


def _alarms(perth: Perth, sounds: Iterator[Pcm], seconds: float) -> dict[str, float]:
    scores, held, length = list[float](), np.zeros(0, np.int16), round(CUT_S * RATE)
    while len(scores) * CUT_S < seconds and (sound := next(sounds, None)) is not None:
        held = np.concatenate([held, sound])
        while len(held) >= length:
            scores.append(score(perth, held[:length], RATE))
            held = held[length:]
    found = np.asarray(scores)
    return {
        "hours": len(scores) * CUT_S / 3600,
        "cuts": len(scores),
        "called marked": int((found > MARKED).sum()),
        f"above {_SURE}": int((found > _SURE).sum()),
        "highest": round(float(found.max()), 3),
        "p999": round(float(np.quantile(found, 0.999)), 3),
    }


PARTS: Final[dict[str, Callable[[Evaluated], dict[str, Any]]]] = {
    "cost": cost, "detection": detection, "judges": judges, "alarms": alarms,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True, help="of Perth, as safetensors")
    parser.add_argument("--voice", type=Path, default=Path("voices/vesper"))
    parser.add_argument("--sentences", type=int, default=40)
    parser.add_argument("--cuts", type=int, default=100, help="of 5 s, for each treatment")
    parser.add_argument("--hours", type=float, default=1.0, help="of each unmarked sound")
    parser.add_argument("--out", type=Path, default=Path("build/watermarks.json"))
    parser.add_argument("--only", action="append", choices=PARTS, help="repeatable")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    evaluated = Evaluated(Perth.load(options.weights), Voice.load(options.voice), options)
    report = json.loads(options.out.read_text()) if options.out.exists() else {}
    for part in options.only or PARTS:
        report[part] = PARTS[part](evaluated)
        options.out.write_text(json.dumps(report, indent=1) + "\n")
        print(part, json.dumps(report[part], indent=1), flush=True)


if __name__ == "__main__":
    main()
