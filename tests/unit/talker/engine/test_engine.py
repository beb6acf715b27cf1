"""The engine with a model without a network: joining, pausing, failing, cancelling, leaking."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from talker.engine.chunker import ChunkSizes
from talker.engine.engine import ChunkReady, Engine, Event, Failed, Finished, Stopped
from talker.engine.scheduler import Limits
from talker.models.base import Attend, Plan, Rendered, Slice, TalkerStream
from talker.models.fake import Curve, FakeModel, FakeStream, fake_frame
from ttscommon.errors import UnknownVoice
from ttscommon.messages import SpeechRequest
from ttscommon.metrics import Metrics


class Model(FakeModel):
    """A fake that records its batches and fails for requests with seed 666."""

    def __init__(self) -> None:
        super().__init__("m", Curve(), sleep=lambda _: None)
        self.batches: list[int] = []

    def step(self, batch: Sequence[Slice], attend: Mapping[str, Attend]) -> None:
        if any(isinstance(p.stream, FakeStream) and p.stream.seed == 666 for p in batch):
            raise RuntimeError("this one breaks")
        self.batches.append(len(batch))
        super().step(batch, attend)


class Ears:
    """Collects a stream's events and, unless told otherwise, acknowledges every chunk."""

    def __init__(self, engine: Engine, request_id: str, *, acknowledge: bool = True) -> None:
        self.events: list[Event] = []
        self.over = threading.Event()
        self._engine, self._id, self._acknowledge = engine, request_id, acknowledge

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, ChunkReady):
            if self._acknowledge:
                self._engine.acknowledge(self._id)
        else:
            self.over.set()

    @property
    def codes(self) -> list[list[int]]:
        chunks = [e.arrays["codes"] for e in self.events if isinstance(e, ChunkReady)]
        return [row.tolist() for chunk in chunks for row in chunk]


def engine_of(model: FakeModel, **changes: Any) -> Engine:
    options: dict[str, Any] = {"blocks": 64, "slots": 8, "metrics": Metrics()}
    return Engine(model, None, **{**options, **changes})


def request(name: str, text: str = "hello there", **changes: Any) -> SpeechRequest:
    return SpeechRequest(name, "m", changes.pop("voice", "slt"), text, **changes)


def run(engine: Engine, *ears: Ears) -> None:
    for _ in range(2000):
        if all(ear.over.is_set() for ear in ears):
            return
        engine.step()
    raise AssertionError("the streams did not end")


def expected(seed: int, frames: int) -> list[list[int]]:
    return [fake_frame(seed, frame).tolist() for frame in range(frames)]


def test_streams_join_at_the_next_step_and_share_batches() -> None:
    model = Model()
    engine = engine_of(model)
    first, second = Ears(engine, "a"), Ears(engine, "b")
    engine.open(request("a", seed=1), None, first)
    for _ in range(3):
        engine.step()
    engine.open(request("b", seed=2), None, second)
    run(engine, first, second)
    assert model.batches[:3] == [1, 1, 1]
    assert model.batches[3] == 2
    assert first.codes == expected(1, 17)
    assert second.codes == expected(2, 17)
    assert isinstance(first.events[-1], Finished)
    assert engine.idle


def test_a_restored_stream_goes_on_with_the_next_frame() -> None:
    engine = engine_of(Model())
    ears = Ears(engine, "a")
    restored = {"codes": np.array(expected(1, 5), dtype=np.int16)}
    engine.open(request("a", seed=1), restored, ears)
    run(engine, ears)
    assert expected(1, 5) + ears.codes == expected(1, 17)


def test_text_that_comes_late_is_waited_for() -> None:
    engine = engine_of(Model())
    ears = Ears(engine, "a")
    engine.open(request("a", "hello", text_final=False, seed=4), None, ears)
    for _ in range(20):
        engine.feed("a", "", final=False)
        engine.step()
    assert ears.codes == expected(4, 8)
    engine.feed("a", " there", final=True)
    run(engine, ears)
    assert ears.codes == expected(4, 17)


def test_a_stream_that_nobody_takes_from_pauses_and_the_others_go_on() -> None:
    engine = engine_of(Model(), sizes=ChunkSizes(1, 1))
    stuck = Ears(engine, "a", acknowledge=False)
    free = Ears(engine, "b")
    engine.open(request("a", "x" * 100), None, stuck)
    engine.open(request("b", "x" * 100), None, free)
    run(engine, free)
    assert len(free.codes) == 160
    assert len(stuck.codes) == 8
    engine.cancel("a")
    engine.step()
    assert engine.idle


def test_a_stream_that_breaks_the_step_falls_alone() -> None:
    engine = engine_of(Model())
    good, bad = Ears(engine, "good"), Ears(engine, "bad")
    engine.open(request("good", seed=1), None, good)
    engine.open(request("bad", seed=666), None, bad)
    run(engine, good, bad)
    assert isinstance(bad.events[-1], Failed)
    assert good.codes == expected(1, 17)
    assert engine.idle


def test_what_a_model_refuses_fails_with_its_typed_error() -> None:
    engine = engine_of(Model())
    ears = Ears(engine, "a")
    engine.open(request("a", voice="nobody"), None, ears)
    run(engine, ears)
    event = ears.events[0]
    assert isinstance(event, Failed)
    assert isinstance(event.error, UnknownVoice)


def test_a_cancelled_stream_frees_everything_and_says_nothing_more() -> None:
    engine = engine_of(Model())
    ears = Ears(engine, "a")
    engine.open(request("a", "x" * 100), None, ears)
    engine.step()
    freed = threading.Event()
    engine.cancel("a", freed.set)
    engine.step()
    assert freed.is_set()
    assert engine.idle
    assert not any(isinstance(e, Finished | Failed) for e in ears.events)


class HungryStream(FakeStream):
    """Fills its cache position by position, so that blocks run out."""

    def __init__(self, opened: SpeechRequest) -> None:
        super().__init__(opened)
        self.evictions = 0
        self._held = 0

    def plan(self) -> Plan | None:
        if super().plan() is None:
            return None
        return Plan(self._held, 1) if self._held else Plan(0, self.frames + 1)

    def advance(self) -> None:
        super().advance()
        self._held = self.frames

    def evict(self) -> None:
        self.evictions += 1
        self._held = 0


class HungryModel(Model):
    def open(self, request: SpeechRequest) -> HungryStream:
        return HungryStream(request)


def test_streams_give_way_when_blocks_run_out_and_still_say_everything() -> None:
    model = HungryModel()
    opened: list[HungryStream] = []
    original = model.open
    model.open = lambda r: opened.append(original(r)) or opened[-1]  # type: ignore[method-assign,func-returns-value]
    engine = engine_of(model, blocks=5, limits=Limits(streams=2))
    ears = [Ears(engine, name) for name in ("a", "b")]
    for seed, ear in enumerate(ears):
        engine.open(request("ab"[seed], "x" * 30, seed=seed), None, ear)
    run(engine, *ears)
    assert [ear.codes for ear in ears] == [expected(0, 48), expected(1, 48)]
    assert sum(stream.evictions for stream in opened) > 0
    assert engine.idle


def test_the_thread_serves_and_stops() -> None:
    engine = engine_of(Model())
    ears = Ears(engine, "a")
    engine.start()
    engine.open(request("a"), None, ears)
    assert ears.over.wait(10)
    engine.stop()


def test_an_engine_that_dies_says_so_and_lets_everybody_go() -> None:
    def broken() -> None:
        raise MemoryError("broken")

    died, beats = threading.Event(), iter(range(3))
    engine = engine_of(Model(), died=died.set, beat=lambda: broken() if next(beats) == 2 else None)
    ears = [Ears(engine, name, acknowledge=False) for name in "ab"]
    for name, ear in zip("ab", ears, strict=True):
        engine.open(request(name), None, ear)
    engine.start()
    assert died.wait(10)
    assert isinstance(engine.error, MemoryError)
    for ear in ears:
        last = ear.events[-1]
        assert isinstance(last, Failed)
        assert isinstance(last.error, Stopped)
    assert engine.idle
    freed = threading.Event()
    engine.cancel("a", freed.set)
    assert freed.is_set()
    with pytest.raises(Stopped):
        engine.open(request("c"), None, ears[0])


def test_streams_still_open_at_a_stop_fail_with_it() -> None:
    engine = engine_of(Model())
    ears = Ears(engine, "a")
    engine.start()
    engine.open(request("a", text_final=False), None, ears)
    engine.stop()
    last = ears.events[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, Stopped)
    assert engine.idle


def test_a_render_that_fails_takes_only_its_own_stream() -> None:
    class Fragile(Model):
        def render(self, parts: Sequence[tuple[TalkerStream, int]]) -> list[Rendered]:
            if any(isinstance(s, FakeStream) and s.seed == 13 for s, _ in parts):
                raise RuntimeError("cannot render")
            return super().render(parts)

    engine = engine_of(Fragile())
    good, bad = Ears(engine, "good"), Ears(engine, "bad")
    engine.open(request("good", seed=1), None, good)
    engine.open(request("bad", seed=13), None, bad)
    run(engine, good, bad)
    assert isinstance(bad.events[-1], Failed)
    assert good.codes == expected(1, 17)


def test_metrics_know_the_batch() -> None:
    metrics = Metrics()
    engine = engine_of(Model(), metrics=metrics)
    ears = Ears(engine, "a")
    engine.open(request("a"), None, ears)
    run(engine, ears)
    assert metrics.registry.get_sample_value("tts_batch_size_count", {"stage": "talker"}) == 17
