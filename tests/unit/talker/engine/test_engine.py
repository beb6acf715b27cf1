"""The engine with a model without a network: joining, pausing, failing, cancelling, leaking."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from talker.engine.engine import Engine
from talker.engine.scheduler import StepLimits
from talker.engine.stream import ChunkReady, Event
from ttscommon.engine.contention import Contention
from ttscommon.engine.inflight import DeviceError
from ttscommon.engine.runtime import Failed, Finished, Stopped
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import TextTooLong
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.chunker import ChunkSizes
from ttsfamilies.base.talker.runner import Results, Row
from ttsfamilies.base.talker.streams import Plan, Taken
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
    """Records its batches, and fails for some seeds."""

    batches: list[int]

    def launch(self, batch: Sequence[Row]) -> Any:
        if any(row.stream.seed == BREAKS for row in batch):  # type: ignore[attr-defined]
            raise RuntimeError("this one breaks")
        self.batches.append(len(batch))
        ready_s, results = super().launch(batch)
        results.bad = [row.stream.seed == NOT_FINITE for row in batch]  # type: ignore[attr-defined]
        return ready_s, results

    def render(self, raw: Arrays) -> Arrays:
        if any((row == fake_frame(UNRENDERED, 0)).all() for row in raw["codes"]):
            raise RuntimeError("cannot render")
        return raw


class Model(FakeModel):
    """A fake whose streams and runner may break."""

    def __init__(self, manner: Manner = Manner()) -> None:  # noqa: B008
        super().__init__("m", StepCurve(), sleep=lambda _: None, manner=manner)
        self.batches: list[int] = []
        object.__setattr__(self.spec, "raw", self.spec.frame)  # so that render is called

    def open(self, prepared: Prepared) -> Stream:
        return Stream(prepared.request, self.manner)

    def runner(self, rows: int, blocks: int, depth: int) -> Runner:
        runner = Runner(self, rows, blocks, depth)
        runner.batches = self.batches
        return runner


class Desk:
    """An engine and what its listener has heard, stream by stream."""

    def __init__(self, model: FakeModel | None = None, **changes: Any) -> None:
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
            if not isinstance(event, ChunkReady):
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
        chunks = [e.arrays["codes"] for e in self.events[name] if isinstance(e, ChunkReady)]
        return [row.tolist() for chunk in chunks for row in chunk]

    def error(self, name: str) -> Exception:
        (failed,) = [event for event in self.events[name] if isinstance(event, Failed)]
        assert self.events[name][-1] is failed
        return failed.error


def expected(seed: int, frames: int) -> list[list[int]]:
    return [fake_frame(seed, frame).tolist() for frame in range(frames)]


both_depths = pytest.mark.parametrize("depth", [0, 1], ids=["in step", "a step behind"])


def test_streams_join_at_the_next_step_and_share_batches() -> None:
    model = Model()
    desk = Desk(model)
    desk.open("a", seed=1)
    for _ in range(3):
        desk.engine.step()
    desk.open("b", seed=2)
    desk.run()
    assert model.batches[:4] == [1, 1, 1, 2]
    assert desk.codes("a") == expected(1, 17)
    assert desk.codes("b") == expected(2, 17)
    assert isinstance(desk.events["a"][-1], Finished)


@both_depths
def test_a_restored_stream_goes_on_with_the_next_frame(depth: int) -> None:
    desk = Desk(depth=depth)
    desk.open("a", seed=1, restored={"codes": np.array(expected(1, 5), dtype=np.int16)})
    desk.run()
    assert expected(1, 5) + desk.codes("a") == expected(1, 17)


@both_depths
def test_text_that_comes_late_is_waited_for(depth: int) -> None:
    desk = Desk(depth=depth)
    desk.open("a", "hello", final=False, seed=4)
    for _ in range(20):
        desk.engine.feed("a", (), final=False)
        desk.engine.step()
    assert desk.codes("a") == expected(4, 8)
    desk.engine.feed("a", [6], final=True)
    desk.run()
    assert desk.codes("a") == expected(4, 17)


@both_depths
def test_a_stream_that_nobody_takes_from_pauses_and_the_others_go_on(depth: int) -> None:
    desk = Desk(sizes=ChunkSizes(1, 1, ample=1.0), depth=depth)
    desk.deaf.add("stuck")
    desk.open("stuck", "x" * 100)
    desk.open("free", "x" * 100)
    desk.run("free")
    assert len(desk.codes("free")) == 160
    assert len(desk.codes("stuck")) == 8
    desk.engine.cancel("stuck")
    desk.engine.step()
    assert desk.engine.idle


@both_depths
@pytest.mark.parametrize("seed", [BREAKS, NOT_FINITE, UNRENDERED, NO_PLAN, NOT_DONE, NOT_TAKEN])
def test_a_stream_that_breaks_falls_alone(seed: int, depth: int) -> None:
    desk = Desk(depth=depth)
    names = [f"good{i}" for i in range(5)]
    for index, name in enumerate(names):
        desk.open(name, seed=index + 1)
    desk.open("bad", seed=seed)
    desk.run()
    assert isinstance(desk.error("bad"), RuntimeError | FloatingPointError)
    for index, name in enumerate(names):
        assert desk.codes(name) == expected(index + 1, 17)


def test_the_guilty_row_is_found_by_halving() -> None:
    model = Model()
    desk = Desk(model, slots=16)
    for index in range(15):
        desk.open(f"good{index}", seed=index + 1)
    desk.open("bad", seed=BREAKS)
    desk.engine.step()
    assert sorted(model.batches) == [1, 2, 4, 8]
    assert isinstance(desk.error("bad"), RuntimeError)
    desk.run()


def test_an_error_of_the_device_ends_the_engine_and_blames_nobody() -> None:
    class Lost(Runner):
        def collect(self, ticket: Any) -> Results:
            raise DeviceError("the device is gone")

    class OnDevice(Model):
        def runner(self, rows: int, blocks: int, depth: int) -> Runner:
            runner = Lost(self, rows, blocks, depth)
            runner.batches = self.batches
            return runner

    died = threading.Event()
    desk = Desk(OnDevice(), died=died.set)
    desk.open("a")
    desk.open("b")
    desk.engine.start()
    assert died.wait(10)
    assert isinstance(desk.engine.error, DeviceError)
    for name in "ab":
        assert isinstance(desk.error(name), Stopped)
    assert desk.engine.idle


def test_what_does_not_fit_the_model_is_refused_and_evicts_nobody() -> None:
    desk = Desk(Model(Manner(cached=True, max_positions=40)), blocks=8)
    desk.open("long", "x" * 100, seed=1)
    desk.open("fine", "x" * 20, seed=2)
    desk.run()
    error = desk.error("long")
    assert isinstance(error, TextTooLong)
    assert error.param == "input"
    assert desk.codes("long") == expected(1, 39)[: len(desk.codes("long"))]
    assert desk.codes("fine") == expected(2, 32)


def test_what_does_not_fit_the_cache_is_refused_instead_of_tried_for_good() -> None:
    desk = Desk(Model(Manner(cached=True)), blocks=2)
    desk.open("long", "x" * 100, seed=1)
    desk.run()
    assert isinstance(desk.error("long"), TextTooLong)


@both_depths
def test_a_cut_prompt_gives_the_same_frames(depth: int) -> None:
    restored = {"codes": np.array(expected(1, 70), dtype=np.int16)}
    desk = Desk(
        Model(Manner(cached=True)),
        blocks=64,
        depth=depth,
        limits=StepLimits(streams=8, positions=16),
    )
    desk.open("a", "x" * 50, seed=1, restored=restored)
    desk.open("b", "x" * 50, seed=2)
    desk.run()
    assert expected(1, 70) + desk.codes("a") == expected(1, 80)
    assert desk.codes("b") == expected(2, 80)


@both_depths
def test_a_cancelled_stream_frees_everything_and_says_nothing_more(depth: int) -> None:
    desk = Desk(Model(Manner(cached=True)), depth=depth, blocks=16)
    desk.open("a", "x" * 100)
    for _ in range(3):
        desk.engine.step()
    freed = threading.Event()
    desk.engine.cancel("a", freed.set)
    desk.engine.step()
    desk.engine.cancel("a")
    desk.engine.step()
    assert freed.is_set()
    assert desk.engine.idle
    assert not any(isinstance(e, Finished | Failed) for e in desk.events["a"])


def test_a_slot_is_taken_again_at_once_even_while_its_last_launch_is_in_flight() -> None:
    desk = Desk(depth=1, slots=1)
    desk.open("a", "x" * 50, seed=1)
    for _ in range(4):
        desk.engine.step()
    desk.engine.cancel("a")
    desk.open("b", seed=2)
    desk.run("b")
    assert desk.codes("b") == expected(2, 17)


def test_no_more_streams_than_slots() -> None:
    desk = Desk(slots=1)
    desk.open("a", "x" * 50)
    desk.open("b")
    desk.engine.step()
    assert "slots are taken" in str(desk.error("b"))


@both_depths
def test_streams_give_way_when_blocks_run_out_and_still_say_everything(depth: int) -> None:
    desk = Desk(Model(Manner(cached=True)), blocks=7, depth=depth)
    for seed in range(4):
        desk.open(f"s{seed}", "x" * 50, seed=seed)
    desk.run()
    for seed in range(4):
        assert desk.codes(f"s{seed}") == expected(seed, 80)


def test_the_thread_serves_and_stops() -> None:
    desk = Desk()
    desk.engine.start()
    desk.open("a")
    assert desk.over["a"].wait(10)
    desk.engine.stop()


def test_streams_still_open_at_a_stop_fail_with_it() -> None:
    desk = Desk()
    desk.engine.start()
    desk.open("a", final=False)
    desk.engine.stop()
    assert isinstance(desk.error("a"), Stopped)
    assert desk.engine.idle
    with pytest.raises(Stopped):
        desk.open("b")


def test_metrics_know_the_batch_and_replicas_the_cache() -> None:
    metrics = Metrics()
    desk = Desk(Model(Manner(cached=True)), metrics=metrics, blocks=8)
    assert desk.engine.kv_positions == (128, 128)
    desk.open("a")
    desk.engine.step()
    assert desk.engine.kv_positions == (112, 128)
    desk.run()
    assert metrics.registry.get_sample_value("tts_batch_size_count", {"stage": "talker"}) == 17


def test_metrics_tell_prompts_from_steps_and_count_evictions() -> None:
    metrics = Metrics()
    desk = Desk(Model(Manner(cached=True)), metrics=metrics, blocks=7)

    def count(name: str, **labels: str) -> float:
        return metrics.registry.get_sample_value(name, labels) or 0.0

    assert metrics.registry.get_sample_value("tts_evictions_total") == 0
    desk.open("s0", "x" * 50)
    desk.engine.step()
    assert count("tts_positions_total", kind="prompt") == PROMPT
    for seed in range(1, 4):
        desk.open(f"s{seed}", "x" * 50, seed=seed)
    desk.run()
    assert count("tts_evictions_total") > 0
    assert count("tts_positions_total", kind="prompt") > 4 * PROMPT
    assert 200 < count("tts_positions_total", kind="step") < 4 * 80


def test_a_step_lasts_from_its_launch_to_its_results_and_names_its_streams() -> None:
    now = [100.0]
    steps: list[tuple[float, list[str]]] = []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    model = FakeModel("m", StepCurve(0.02, 0.0, 0.0), sleep, Manner())
    desk = Desk(model, clock=lambda: now[0])
    desk.engine.on_step = lambda took_s, keys: steps.append((took_s, list(keys)))
    desk.open("a")
    desk.open("b", "x" * 20)
    desk.run()
    assert {round(took_s, 6) for took_s, _ in steps} == {0.02}
    assert steps[0][1] == ["a", "b"]
    assert steps[-1][1] == ["b"]


def test_the_first_chunk_says_when_its_prompt_was_computed() -> None:
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    model = FakeModel("m", StepCurve(0.02, 0.0, 0.03), sleep, Manner())
    desk = Desk(model, clock=lambda: now[0])
    desk.open("a")
    desk.run()
    first, *others = [event for event in desk.events["a"] if isinstance(event, ChunkReady)]
    assert first.prefill == pytest.approx((100.0, 100.05))
    assert others
    assert {chunk.prefill for chunk in others} == {None}


def test_the_pace_counts_frames_not_streams() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def paced(manner: Manner) -> float:
        model = FakeModel("m", StepCurve(0.02, 0.0, 0.0), sleep, manner)
        desk = Desk(model, clock=lambda: now[0])
        desk.open("a", "x" * 400)
        desk.run()
        return desk.engine.step_seconds[1]

    one, several = paced(Manner()), paced(Manner(frames_per_step=4))
    assert one == pytest.approx(0.02, rel=0.05)
    assert several < 0.6 * one
    assert paced(Manner(steps_per_frame=4)) == pytest.approx(0.08, rel=0.1)


@both_depths
def test_a_stream_that_waits_for_text_holds_nothing_and_goes_on_as_if_it_had_not(
    depth: int,
) -> None:
    desk = Desk(
        FakeModel("m", StepCurve(0, 0, 0), manner=Manner(cached=True)), depth=depth, blocks=32
    )
    parked: list[bool] = []
    desk.open("a", "hello ", final=False, seed=1)
    desk.engine.park("a", parked.append)  # before it has spoken
    while not any(parked):
        desk.engine.step()
        if parked[-1:] == [False]:
            desk.engine.park("a", parked.append)
    assert parked[0] is False
    assert desk.engine.idle
    desk.engine.playback("a", 0.0)
    desk.engine.unpark("a")
    desk.engine.feed("a", [len(" there")], final=True)
    desk.run()
    assert desk.codes("a") == expected(1, int(1.6 * len("hello there")))


def test_a_parked_stream_fails_when_the_engine_ends_and_can_be_cancelled() -> None:
    desk = Desk()
    parked: list[bool] = []
    for name in ("a", "b"):
        desk.open(name, "", final=False)
        desk.engine.park(name, parked.append)
    desk.engine.step()
    assert parked == [True, True]
    desk.engine.cancel("a")
    desk.engine.start()
    desk.engine.stop()
    assert not desk.events["a"]
    assert isinstance(desk.error("b"), Stopped)


class Hogged:
    """A clock, and the counts of a thread that gets a share of its processor."""

    def __init__(self) -> None:
        self.now, self.share = 0.0, 1.0
        self.ran_s = self.waited_s = 0.0

    def read(self) -> tuple[float, float]:
        self.ran_s += 0.01
        self.waited_s += 0.01 * (1.0 / self.share - 1.0)
        return self.ran_s, self.waited_s


def test_a_first_chunk_has_the_headroom_that_its_request_asks_for() -> None:
    desk = Desk(sizes=ChunkSizes(2, 25))
    frames = []
    for headroom_s in (0.0, 3 / desk.engine.spec.frame_rate_hz):
        name = f"headroom {headroom_s}"
        desk.open(name, headroom_s=headroom_s)
        desk.run(name)
        first = desk.events[name][0]
        assert isinstance(first, ChunkReady)
        frames.append(len(first.arrays["codes"]))
    assert frames == [2, 5]
