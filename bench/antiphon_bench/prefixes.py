"""Gain of shared prefixes: requests with a few cloned voices, with and without.

Prompts are those of cloning in context in the streaming layout; recordings are drawn, not heard.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import numpy as np

from antiphon_bench.texts import SHORT
from talker.engine.engine import Engine
from talker.engine.stream import ChunkReady, Event
from talker.loading import read_family
from talker.settings import TalkerSettings
from ttscommon.engine.runtime import Failed
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.talker.base import Family

_WORDS: Final = ("I", "agree", "that", "my", "voice", "is", "copied", "and", "may", "be", "kept")
_SPOKEN_FRAMES: Final = 4
_FRAMES_PER_WORD: Final = 5


@dataclass(frozen=True)
class Recording:
    """A voice: what is said in it, its codes and its speaker."""

    text: str
    arrays: Arrays


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """positions: of prompts that were computed. first_s: from a request's opening to its first
    chunk, by the engine's thread's processor time.
    """

    shared: bool
    requests: int
    positions: int
    first_p50_s: float
    first_p95_s: float


def compare(
    checkpoint: Path, voices: int = 10, requests: int = 100, blocks: int = 1024, at_once: int = 4
) -> Iterator[Shared]:
    """So many requests of each voice, in random order, `at_once` at a time; without, then with.

    Raises VoiceError for a folder that holds no model which clones.
    """
    settings = TalkerSettings(model="prefixes", voice_dir=checkpoint, threads=1)
    family = read_family(settings)
    recordings = [_recording(family, number) for number in range(voices)]
    order = [voice for voice in range(voices) for _ in range(requests)]
    random.Random(0).shuffle(order)
    for shares in (False, True):
        yield _Run(family, recordings, blocks, shares).over(order, at_once)


def _recording(family: Family, number: int) -> Recording:
    """Of 8 to 28 seconds."""
    drawn = np.random.default_rng(number)
    example, frame = family.example_reference(), family.spec.frame["codes"]
    if example is None:
        raise ValueError("this model clones no voice")
    frames = int(drawn.integers(100, 350))
    words = drawn.choice(_WORDS, frames // _FRAMES_PER_WORD)
    speaker = drawn.normal(size=example["speaker"].shape).astype(np.float32)
    codes = drawn.integers(0, frame.limit or 2, (frames, *frame.shape)).astype(np.int16)
    return Recording(" ".join(words), {"speaker": speaker, "codes": codes})


class _Run:
    def __init__(
        self, family: Family, recordings: Sequence[Recording], blocks: int, shares: bool
    ) -> None:
        self._metrics = Metrics()
        keep = None if shares else 0
        self._engine = Engine(family, slots=16, blocks=blocks, metrics=self._metrics, keep=keep)
        self._engine.listen(self._hear)
        self._recordings, self._shares = recordings, shares
        self._open: dict[str, float] = {}
        self._first_s: dict[str, float] = {}
        self._failed: Exception | None = None

    def over(self, order: Sequence[int], at_once: int) -> Shared:
        for number, voice in enumerate(order):
            self._wait(at_once)
            self._begin(number, voice)
        self._wait(1)
        times = sorted(self._first_s.values())
        return Shared(
            shared=self._shares,
            requests=len(order),
            positions=int(self._metrics.positions.labels("prompt")._value.get()),
            first_p50_s=median(times),
            first_p95_s=times[int(0.95 * len(times))],
        )

    def _wait(self, open_: int) -> None:
        """Until fewer requests are open; raises what one of them failed with."""
        while len(self._open) >= open_:
            self._engine.step()
        if self._failed is not None:
            raise self._failed

    def _begin(self, number: int, voice: int) -> None:
        recording, family = self._recordings[voice], self._engine.family
        request = SpeechRequest(
            *(str(number), family.spec.name, "default", ""),
            seed=number,
            sampling=Sampling(max_new_tokens=_SPOKEN_FRAMES + 1),
            reference=Reference("0" * 16 + "-" + "0" * 64, recording.text),
            whole_text=False,
        )
        prepared = family.prepare(request, recording.arrays)
        text = " ".join(SHORT[number % len(SHORT)].split()[:5])
        units = list(prepared.read([Text(text)], final=True))
        self._open[str(number)] = time.thread_time()
        self._engine.open(prepared, None, units, final=True)

    def _hear(self, events: Sequence[tuple[str, Event]]) -> None:
        for key, event in events:
            if isinstance(event, ChunkReady):
                self._first_s.setdefault(key, time.thread_time() - self._open[key])
                self._engine.acknowledge(key)
                continue
            del self._open[key]
            self._failed = event.error if isinstance(event, Failed) else self._failed
