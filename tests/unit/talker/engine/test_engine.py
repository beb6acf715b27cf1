"""The engine with a model without a network: joining, pausing, failing, parking, counting.

test_schedules.py has whatever random streams do to one another.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from talker.engine.draft_lengths import DraftLengths
from talker.engine.engine import Engine
from talker.engine.stream import Event
from tests.waits import TIMEOUT_S
from ttscommon.engine.inflight import DeviceError
from ttscommon.engine.pace import Contention
from ttscommon.engine.runtime import Failed, Stopped
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import TextTooLong
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.talker.base import Family, Prepared
from ttsfamilies.base.talker.chunker import ChunkSizes
from ttsfamilies.base.talker.streams import Plan, Results, Row, Taken
from ttsfamilies.fake.talker import (
    PROMPT,
    FakeModel,
    FakeRunner,
    FakeStream,
    Manner,
    StepCurve,
    fake_frame,
)

BREAKS, NOT_FINITE, UNRENDERED, NO_PLAN, NOT_DONE, NOT_TAKEN = range(666, 672)


class Stream(FakeStream):
    """Breaks in one of the ways that its seed says."""

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        if self.seed == NO_PLAN and self.frames >= 5:
            raise RuntimeError("no plan")
        return super().plan(ahead)

    @property
    def done(self) -> bool:
        if self.seed == NOT_DONE and self.frames >= 5:
            raise RuntimeError("cannot say")
        return super().done

    def take(self, count: int) -> Taken:
        if self.seed == NOT_TAKEN:
            raise RuntimeError("cannot be taken")
        return super().take(count)


class Runner(FakeRunner):
    """Fails for some seeds."""

    def launch(self, batch: Sequence[Row]) -> Any:
        if any(row.stream.seed == BREAKS for row in batch):  # type: ignore[attr-defined]
            raise RuntimeError("this one breaks")
        ready_s, results = super().launch(batch)
        results.bad = [row.stream.seed == NOT_FINITE for row in batch]  # type: ignore[attr-defined]
        return ready_s, results

    def render(self, raw: Arrays) -> Arrays:
        if any((row == fake_frame(UNRENDERED, 0)).all() for row in raw["codes"]):
            raise RuntimeError("cannot render")
        return raw


class Model(FakeModel):
    """A fake whose streams and runner may break."""

    def __init__(self, manner: Manner = Manner(), made: type[Runner] = Runner) -> None:  # noqa: B008
        super().__init__("m", StepCurve(), sleep=lambda _: None, manner=manner)
        self._made = made
        object.__setattr__(self.spec, "raw", self.spec.frame)  # so that render is called

    def open(self, prepared: Prepared) -> Stream:
        return Stream(prepared.request, self.manner)

    def runner(self, rows: int, blocks: int, depth: int) -> Runner:
        return self._made(self, rows, blocks, depth)


class Driven:
    """An engine and what its listener has heard, stream by stream."""

    def __init__(self, model: Family | None = None, **changes: Any) -> None:
        alone = Contention(read=lambda: None)
        options: dict[str, Any] = {
            "slots": 8, "metrics": Metrics(), "depth": 0, "contention": alone,
        }  # fmt: skip
        self.engine = Engine(model or Model(), **{**options, **changes})
        self.engine.listen(self.hear)
        self.deaf: set[str] = set()
        self.events: dict[str, list[Event]] = {}
        self.over: dict[str, threading.Event] = {}

    def hear(self, events: Sequence[tuple[str, Event]]) -> None:
        for key, event in events:
            self.events[key].append(event)
            if not isinstance(event, Taken):
                self.over[key].set()
            elif key not in self.deaf:
                self.engine.acknowledge(key)

    def open(
        self,
        name: str,
        text: str = "hello there",
        *,
        final: bool = True,
        restored: Arrays | None = None,
        **changes: Any,
    ) -> None:
        self.events[name], self.over[name] = [], threading.Event()
        request = SpeechRequest(name, "m", "slt", text, text_final=final, **changes)
        prepared = self.engine.family.prepare(request)
        units = list(prepared.read([Text(text)], final=final))
        self.engine.open(prepared, restored, units, final=final)

    def run(self, *names: str) -> None:
        for _ in range(5000):
            if all(self.over[name].is_set() for name in names or self.over):
                break
            self.engine.step()
        else:
            raise AssertionError("the streams did not end")
        if not names:
            self.engine.step() if not self.engine.idle else None
            assert self.engine.idle

    def codes(self, name: str) -> list[list[int]]:
        chunks = [e.frames["codes"] for e in self.events[name] if isinstance(e, Taken)]
        return [row.tolist() for chunk in chunks for row in chunk]

    def error(self, name: str) -> Exception:
        (failed,) = [event for event in self.events[name] if isinstance(event, Failed)]
        assert self.events[name][-1] is failed
        return failed.error


def expected(seed: int, frames: int) -> list[list[int]]:
    return [fake_frame(seed, frame).tolist() for frame in range(frames)]


both_depths = pytest.mark.parametrize("depth", [0, 1], ids=["in step", "a step behind"])


@both_depths
def test_a_stream_that_nobody_takes_from_pauses_and_the_others_go_on(depth: int) -> None:
    driven = Driven(sizes=ChunkSizes(1, 1, ample=1.0), depth=depth)
    driven.deaf.add("stuck")
    driven.open("stuck", "x" * 100)
    driven.open("free", "x" * 100)
    driven.run("free")
    assert len(driven.codes("free")) == 160
    assert len(driven.codes("stuck")) == 8
    driven.engine.cancel("stuck")
    driven.engine.step()
    assert driven.engine.idle


@both_depths
@pytest.mark.parametrize("seed", [BREAKS, NOT_FINITE, UNRENDERED, NO_PLAN, NOT_DONE, NOT_TAKEN])
def test_a_stream_that_breaks_falls_alone(seed: int, depth: int) -> None:
    driven = Driven(depth=depth)
    names = [f"good{i}" for i in range(5)]
    for index, name in enumerate(names):
        driven.open(name, seed=index + 1)
    driven.open("bad", seed=seed)
    driven.run()
    assert isinstance(driven.error("bad"), RuntimeError | FloatingPointError)
    for index, name in enumerate(names):
        assert driven.codes(name) == expected(index + 1, 17)


def test_an_error_of_the_device_ends_the_engine_and_blames_nobody() -> None:
    class Lost(Runner):
        def collect(self, ticket: Any) -> Results:
            raise DeviceError("the device is gone")

    died = threading.Event()
    driven = Driven(Model(made=Lost), died=died.set)
    driven.open("a")
    driven.open("b")
    driven.engine.start()
    assert died.wait(TIMEOUT_S)
    assert isinstance(driven.engine.error, DeviceError)
    for name in "ab":
        assert isinstance(driven.error(name), Stopped)
    assert driven.engine.idle


def test_what_does_not_fit_the_model_is_refused_and_evicts_nobody() -> None:
    driven = Driven(Model(Manner(cached=True, max_positions=40)), blocks=8)
    driven.open("long", "x" * 100, seed=1)
    driven.open("fine", "x" * 20, seed=2)
    driven.run()
    error = driven.error("long")
    assert isinstance(error, TextTooLong)
    assert error.param == "input"
    assert "split the text" in str(error)
    assert driven.codes("long") == expected(1, 39)[: len(driven.codes("long"))]
    assert driven.codes("fine") == expected(2, 32)


def test_what_does_not_fit_the_cache_is_refused_instead_of_tried_for_good() -> None:
    driven = Driven(Model(Manner(cached=True)), blocks=2)
    driven.open("long", "x" * 100, seed=1)
    driven.run()
    assert isinstance(driven.error("long"), TextTooLong)


def test_streams_still_open_at_a_stop_fail_with_it() -> None:
    driven = Driven()
    driven.engine.start()
    driven.open("a", final=False)
    driven.engine.stop()
    assert isinstance(driven.error("a"), Stopped)
    assert driven.engine.idle
    with pytest.raises(Stopped):
        driven.open("b")


def test_what_is_computed_and_held_is_counted() -> None:
    metrics = Metrics()
    driven = Driven(Model(Manner(cached=True)), metrics=metrics, blocks=7)

    def count(name: str, **labels: str) -> float:
        return metrics.registry.get_sample_value(name, labels) or 0.0

    assert metrics.registry.get_sample_value("tts_evictions_total") == 0
    assert driven.engine.kv_positions == (112, 112)
    driven.open("s0", "x" * 50)
    driven.engine.step()
    assert driven.engine.kv_positions[0] < 112
    assert count("tts_positions_total", kind="prompt") == PROMPT
    assert count("tts_batch_size_count", stage="talker") == 1
    for seed in range(1, 4):
        driven.open(f"s{seed}", "x" * 50, seed=seed)
    driven.run()
    assert count("tts_evictions_total") > 0
    assert count("tts_positions_total", kind="prompt") > 4 * PROMPT
    assert 200 < count("tts_positions_total", kind="step") < 4 * 80


def timed(curve: StepCurve, manner: Manner = Manner()) -> Driven:  # noqa: B008
    """On a clock that its model's work alone moves."""
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    return Driven(FakeModel("m", curve, sleep, manner), clock=lambda: now[0])


def test_a_step_lasts_from_its_launch_to_its_results_and_names_its_streams() -> None:
    steps: list[tuple[float, list[str]]] = []
    driven = timed(StepCurve(0.02, 0.0, 0.0))
    driven.engine.on_step = lambda took_s, keys: steps.append((took_s, list(keys)))
    driven.open("a")
    driven.open("b", "x" * 20)
    driven.run()
    assert {round(took_s, 6) for took_s, _ in steps} == {0.02}
    assert steps[0][1] == ["a", "b"]
    assert steps[-1][1] == ["b"]


def test_the_first_chunk_says_when_its_prompt_was_computed() -> None:
    driven = timed(StepCurve(0.02, 0.0, 0.03))
    driven.open("a")
    driven.run()
    first, *others = [event for event in driven.events["a"] if isinstance(event, Taken)]
    assert first.prefill == pytest.approx((100.0, 100.05))
    assert {chunk.prefill for chunk in others} == {None}


def test_the_pace_counts_frames_not_streams() -> None:
    def paced(manner: Manner) -> float:
        driven = timed(StepCurve(0.02, 0.0, 0.0), manner)
        driven.open("a", "x" * 400)
        driven.run()
        return driven.engine.step_seconds[1]

    one, several = paced(Manner()), paced(Manner(frames_per_step=4))
    assert one == pytest.approx(0.02, rel=0.05)
    assert several < 0.6 * one
    assert paced(Manner(steps_per_frame=4)) == pytest.approx(0.08, rel=0.1)


def test_a_width_is_judged_by_what_the_thread_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other programs take of a processor makes no width dearer than another."""
    ran_s = itertools.count(0.0, 0.25)
    monkeypatch.setattr("talker.engine.engine.time.thread_time", lambda: next(ran_s))
    told_s: list[float] = []

    class Told(DraftLengths):
        def account(self, plans: Sequence[Plan], gained: Sequence[int], seconds: float) -> None:
            told_s.append(seconds)

    driven = Driven(draft_lengths=Told)
    driven.open("a")
    driven.run()
    assert set(told_s) == {0.25}
    told_s.clear()
    ahead = Driven(draft_lengths=Told, depth=1)  # a device, which ran meanwhile
    ahead.open("a")
    ahead.run()
    assert told_s
    assert max(told_s) < 0.25


@both_depths
def test_a_stream_that_waits_for_text_holds_nothing_and_goes_on_as_if_it_had_not(
    depth: int,
) -> None:
    driven = Driven(
        FakeModel("m", StepCurve(0, 0, 0), manner=Manner(cached=True)), depth=depth, blocks=32
    )
    parked: list[bool] = []
    driven.open("a", "hello ", final=False, seed=1)
    driven.engine.park("a", parked.append)  # before it has spoken
    while not any(parked):
        driven.engine.step()
        if parked[-1:] == [False]:
            driven.engine.park("a", parked.append)
    assert parked[0] is False
    assert driven.engine.idle
    driven.engine.playback("a", 0.0)
    driven.engine.unpark("a")
    driven.engine.feed("a", [len(" there")], final=True)
    driven.run()
    assert driven.codes("a") == expected(1, int(1.6 * len("hello there")))


def test_a_first_chunk_has_the_headroom_that_its_request_asks_for() -> None:
    driven = Driven(sizes=ChunkSizes(2, 25))
    frames = []
    for headroom_s in (0.0, 3 / driven.engine.spec.frame_rate_hz):
        name = f"headroom {headroom_s}"
        driven.open(name, headroom_s=headroom_s)
        driven.run(name)
        first = driven.events[name][0]
        assert isinstance(first, Taken)
        frames.append(len(first.frames["codes"]))
    assert frames == [2, 5]
