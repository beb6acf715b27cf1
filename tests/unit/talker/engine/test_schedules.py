"""Random schedules under KV pressure: every stream says what it says alone, and ends once.

Streams of listeners and of jobs come, go, are resumed at any frame, are fed late and are cancelled,
in a cache that holds two or three of them, with prompts that are cut, frames that are drafted and
launches that fly. The fake family checks in every step that its cache holds its own positions and
no others. 100 schedules run with the other tests; ANTIPHON_SCHEDULES=1000 runs more.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

from talker.engine.draft_lengths import DraftLengths
from talker.engine.scheduler import POLICIES, StepLimits
from talker.engine.stream import Event
from tests.turning import turn
from tests.unit.talker.engine.test_engine import Driven
from ttscommon.engine.runtime import Finished
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttscommon.wire.requests import OFFLINE
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.chunker import ChunkSizes
from ttsfamilies.base.talker.streams import Taken
from ttsfamilies.fake.talker import FakeModel, Manner, StepCurve, fake_frames

SCHEDULES = int(os.environ.get("ANTIPHON_SCHEDULES", "100"))
MANNERS = (
    Manner(cached=True, max_positions=160),
    Manner(cached=True, max_positions=40, sequence_frames=30),
    Manner(cached=True, max_positions=112, steps_per_frame=5, sequence_frames=20),
    Manner(cached=True, max_positions=60, frames_per_step=4, sequence_frames=50),
    Manner(cached=True, max_positions=40, sequence_frames=30, branches=2),
    Manner(cached=True, max_positions=60, frames_per_step=4, sequence_frames=50, branches=2),
)


class Request:
    """One stream of a schedule, and what was heard of it."""

    def __init__(self, key: str, dice: random.Random) -> None:
        self.key = key
        self.seed = dice.randrange(1 << 50)
        self.characters = dice.choice((dice.randint(1, 20), dice.randint(60, 95)))
        self.restored = dice.randrange(self.frames + 1) if dice.random() < 0.4 else 0
        self.late = dice.random() < 0.3
        self.priority = OFFLINE if dice.random() < 0.3 else 5
        self.cancelled = False
        self.heard: list[np.ndarray] = []
        self.ends: list[Event] = []
        self.prepared: Prepared | None = None
        self.fed = 0

    @property
    def frames(self) -> int:
        return int(self.characters * 1.6)

    @property
    def over(self) -> bool:
        return self.cancelled or bool(self.ends)

    def check(self) -> None:
        said = np.concatenate([np.zeros((0, 4), np.int16), *self.heard])
        first = np.arange(self.restored, self.restored + len(said))
        np.testing.assert_array_equal(said, fake_frames(np.full(len(said), self.seed), first))
        if not self.cancelled:
            assert [type(end) for end in self.ends] == [Finished], self.ends
            assert self.restored + len(said) == self.frames


class AnyWidth(DraftLengths):
    """Drafts as the dice say."""

    def __init__(self, dice: random.Random, most: int, gained: Callable[[int, float], object]):
        super().__init__(most, gained)
        self._dice = dice

    def choose(self, streams: int, rounds: int = 1) -> int:
        del streams
        return self._dice.choice(self.choices)


class Schedule(Driven):
    """An engine under a random load, turned by hand on a clock of its own."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.now = 0.0
        self.model = FakeModel(
            "m", StepCurve(0.004, 0.001, 0.002), self.sleep, dice.choice(MANNERS), lambda: self.now
        )
        most = self.model.spec.branches * -(-self.model.spec.max_positions // 16)
        super().__init__(
            self.model,
            slots=dice.randint(3, 9),
            blocks=most + dice.randint(0, most),
            depth=dice.randint(0, 1),
            sizes=ChunkSizes(dice.randint(1, 4), 25),
            limits=StepLimits(dice.randint(1, 8), dice.choice((7, 40, 512)), starved_s=0.2),
            policy=POLICIES[dice.choice(sorted(POLICIES))],
            draft_lengths=partial(AnyWidth, dice),
            clock=lambda: self.now,
        )
        self.requests = {f"r{i}": Request(f"r{i}", dice) for i in range(dice.randint(4, 16))}
        self.unacknowledged: list[str] = []

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def hear(self, events: Sequence[tuple[str, Event]]) -> None:
        for key, event in events:
            request = self.requests[key]
            assert not request.ends, "nothing follows an end"
            if isinstance(event, Taken):
                request.heard.append(event.frames["codes"])
                self.unacknowledged.append(key)
            else:
                request.ends.append(event)

    def speak(self) -> None:
        waiting = list(self.requests.values())
        for _ in range(60_000):
            if all(request.over for request in self.requests.values()):
                break
            while waiting and self.live < self.engine.capacity and self.dice.random() < 0.3:
                self.begin(waiting.pop())
            self.disturb()
            turn(self.engine)
            self.now += 0.001
        else:
            raise AssertionError("a stream did not end")
        for _ in range(2):
            turn(self.engine)
        assert self.engine.idle

    @property
    def live(self) -> int:
        return sum(r.prepared is not None and not r.over for r in self.requests.values())

    def begin(self, request: Request) -> None:
        asked = SpeechRequest(
            *(request.key, "m", "slt", "a" * request.characters),
            seed=request.seed,
            priority=request.priority,
        )
        prepared = request.prepared = self.model.prepare(asked)
        list(prepared.read([Text(asked.text)], final=True))
        restored = None
        if request.restored:
            seeds = np.full(request.restored, request.seed)
            restored = {"codes": fake_frames(seeds, np.arange(request.restored))}
        request.fed = 0 if request.late else request.characters
        self.engine.open(prepared, restored, [request.fed], final=not request.late)

    def disturb(self) -> None:
        """Late text, acknowledgements, a playback report, a cancel."""
        for request in self.requests.values():
            if request.prepared is None or request.over:
                continue
            if request.fed < request.characters and self.dice.random() < 0.2:
                count = min(self.dice.randint(1, 20), request.characters - request.fed)
                request.fed += count
                final = request.fed == request.characters
                self.engine.feed(request.key, [count], final=final)
            if self.dice.random() < 0.002:
                request.cancelled = True
                self.engine.cancel(request.key)
            if self.dice.random() < 0.01:
                self.engine.playback(request.key, self.now - self.dice.random())
        while self.unacknowledged and self.dice.random() < 0.9:
            self.engine.acknowledge(self.unacknowledged.pop())


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 10))]
)
def test_random_schedules_say_what_each_stream_says_alone(part: int) -> None:
    for seed in range(part, SCHEDULES, 10):
        schedule = Schedule(seed)
        try:
            schedule.speak()
            for request in schedule.requests.values():
                request.check()
        except BaseException as error:
            error.add_note(f"schedule {seed}: {schedule.model.manner}")
            raise
