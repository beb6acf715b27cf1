"""Gain of drafted frames: a voice's own engine at fixed widths and at those it chooses.

All cases speak the same texts with the same seeds, in one run, in turn. Guesses change nothing but
the speed: all widths must say the same frames.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from antiphon_bench.texts import SHORT
from talker.engine.engine import Engine
from talker.engine.widths import Gains, Widths
from talker.loading import load_family
from talker.settings import TalkerSettings
from talker.synthesis import synthesise
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import rows
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.talker.base import Family

_BLOCKS_PER_STREAM: Final = 32


@dataclass(frozen=True)
class Case:
    """A way to speak. width: of every step, 0 where the engine chooses."""

    name: str
    family: Family
    width: int


class Drafted(msgspec.Struct, frozen=True, kw_only=True):
    """gained: frames a stream's step gained, in the mean. frames: a digest of what was said."""

    case: str
    streams: int
    frames_per_s: float
    gained: float
    frames: str


class _Fixed(Widths):
    """Always one width."""

    width = 1

    def choose(self, streams: int) -> int:
        del streams
        return self.width


def cases_of(voice: Path, widths: Sequence[int]) -> list[Case]:
    """A voice folder at each width."""
    settings = TalkerSettings(model="drafts", voice_dir=voice, threads=1)
    plain = load_family(settings)
    return [Case(f"width {width or 'as it pays'}", plain, width) for width in widths]


def compare(
    cases: Sequence[Case],
    streams: Sequence[int],
    *,
    texts: Sequence[str] = SHORT,
    requests: int = 3,
    rounds: int = 3,
    clock: Callable[[], float] = time.thread_time,
) -> Iterator[Drafted]:
    """Every case with every number of streams; medians over `rounds` taken in turn.

    requests: of each stream, one after another; their texts are `texts` in turn.
    """
    for count in streams:
        taken: dict[str, list[Drafted]] = {case.name: [] for case in cases}
        for _ in range(rounds):
            for case in cases:
                said = [texts[i % len(texts)] for i in range(count * requests)]
                taken[case.name].append(_speak(case, count, said, clock))
        for runs in taken.values():
            rate = median(run.frames_per_s for run in runs)
            yield msgspec.structs.replace(runs[0], frames_per_s=rate)


def _speak(case: Case, streams: int, texts: Sequence[str], clock: Callable[[], float]) -> Drafted:
    gains, family = Gains(), case.family

    def widths(most: int, _: object) -> Widths:
        made = _Fixed(most, gains) if case.width else Widths(most, gains)
        if isinstance(made, _Fixed):
            made.width = case.width
        return made

    engine = Engine(
        family,
        slots=streams,
        blocks=streams * _BLOCKS_PER_STREAM,
        metrics=Metrics(),
        widths=widths,
    )
    voice = family.spec.voices[0].id
    requests = [
        SpeechRequest(str(number), family.spec.name, voice, text, seed=number)
        for number, text in enumerate(texts)
    ]
    began = clock()
    spoken = synthesise(engine, requests)
    took_s = clock() - began
    digest = sha256()
    for one in spoken:
        for name in sorted(one.arrays):
            digest.update(one.arrays[name].tobytes())
    frames = sum(rows(one.arrays) for one in spoken)
    return Drafted(
        case=case.name,
        streams=streams,
        frames_per_s=frames / took_s,
        gained=gains.mean,
        frames=digest.hexdigest()[:12],
    )
