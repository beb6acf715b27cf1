"""What drafted frames gain: a voice's own engine at fixed widths and at those it chooses.

All widths speak the same texts with the same seeds, in one run, in turn, and must say the same
frames.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from statistics import median
from typing import Final

import msgspec

from antiphon_bench.texts import SHORT
from talker.engine.engine import Engine
from talker.engine.widths import Widths
from talker.models.base import Family
from talker.synthesis import synthesise
from ttscommon.fields import rows
from ttscommon.messages import SpeechRequest
from ttscommon.metrics import Metrics

_REQUESTS_PER_STREAM: Final = 3
_BLOCKS_PER_STREAM: Final = 32


class Drafted(msgspec.Struct, frozen=True, kw_only=True):
    """width: 0 where the engine chose. gained: frames a stream's step gained, in the mean."""

    streams: int
    width: int
    frames_per_s: float
    gained: float
    frames: str


class _Told:
    def __init__(self) -> None:
        self.steps = self.frames = 0

    def __call__(self, width: int, frames: int) -> None:
        del width
        self.steps, self.frames = self.steps + 1, self.frames + frames


class _Fixed(Widths):
    """Always one width."""

    width = 1

    def choose(self, streams: int) -> int:
        del streams
        return self.width


def compare(
    family: Family,
    streams: Sequence[int],
    widths: Sequence[int],
    *,
    rounds: int = 3,
    clock: Callable[[], float] = time.thread_time,
) -> Iterator[Drafted]:
    """Every width with every number of streams; medians over `rounds` taken in turn."""
    for count in streams:
        taken: dict[int, list[Drafted]] = {width: [] for width in widths}
        for _ in range(rounds):
            for width in widths:
                taken[width].append(_speak(family, count, width, clock))
        for runs in taken.values():
            rate = median(run.frames_per_s for run in runs)
            yield msgspec.structs.replace(runs[0], frames_per_s=rate)


def _speak(family: Family, streams: int, width: int, clock: Callable[[], float]) -> Drafted:
    told = _Told()

    def widths(most: int, _: object) -> Widths:
        made = _Fixed(most, told) if width else Widths(most, told)
        if isinstance(made, _Fixed):
            made.width = width
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
        SpeechRequest(str(i), family.spec.name, voice, SHORT[i % len(SHORT)], seed=i)
        for i in range(streams * _REQUESTS_PER_STREAM)
    ]
    began = clock()
    spoken = synthesise(engine, requests)
    took_s = clock() - began
    digest = sha256()
    for one in spoken:
        for name in sorted(one.arrays):
            digest.update(one.arrays[name].tobytes())
    frames = sum(rows(one.arrays) for one in spoken)
    gained = told.frames / told.steps if told.steps else 1.0
    return Drafted(
        streams=streams,
        width=width,
        frames_per_s=frames / took_s,
        gained=gained,
        frames=digest.hexdigest()[:12],
    )
