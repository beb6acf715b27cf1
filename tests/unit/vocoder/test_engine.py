"""The engine on the fake codec, stepped by hand, with a clock that does not move by itself.

test_conformance.py has what any codec owes; test_service.py, what a request sees of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from msgspec import structs

from tests.turning import turn
from ttscommon.engine.pace import Contention
from ttscommon.engine.slots import OfflineTuning
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.requests import OFFLINE
from ttsfamilies.base.codec.base import Decoded, Work
from ttsfamilies.fake.codec import DecodeCurve, FakeCodec
from vocoder.engine.engine import Engine
from vocoder.engine.scheduler import BatchLimits
from vocoder.engine.stream import DecodedAudio, Event, Failed, Finished
from vocoder.pcm import to_pcm

POISON = 511

Codes = npt.NDArray[np.int16]


class Clock:
    """Moves when told, and by 10 ms a decode."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class RecordingCodec(FakeCodec):
    """Remembers batches, fails on poisoned codes, counts states."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("fake", DecodeCurve(), lambda _: None)
        self._clock_ = clock
        self.batches: list[list[int]] = []
        self.closed = 0

    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        self._clock_.now += 0.01
        if any((work.frames["codes"] == POISON).any() for work in batch):
            raise RuntimeError("poison")
        self.batches.append([len(work) for work in batch])
        return super().launch(batch)

    def close(self, state: object) -> None:
        self.closed += 1


@dataclass
class Listener:
    events: list[Event] = field(default_factory=list)

    @property
    def pcm(self) -> list[int]:
        pieces = [event.pcm for event in self.events if isinstance(event, DecodedAudio)]
        return np.concatenate(pieces).tolist() if pieces else []

    @property
    def error(self) -> Exception:
        last = self.events[-1]
        assert isinstance(last, Failed)
        return last.error


class Bench:
    """An engine that is stepped by hand."""

    def __init__(self, slots: int = 8, **limits: int) -> None:
        self.clock = Clock()
        self.codec = RecordingCodec(self.clock)
        self.metrics = Metrics()
        self.engine = Engine(
            self.codec,
            slots=slots,
            metrics=self.metrics,
            limits=BatchLimits(**limits),
            clock=self.clock,
            contention=Contention(read=lambda: None),
        )
        self.listeners: dict[str, Listener] = {}
        self.engine.listen(self._hear)

    def _hear(self, events: Sequence[tuple[str, Event]]) -> None:
        for key, event in events:
            self.listeners[key].events.append(event)

    def open(self, request_id: str) -> Listener:
        listener = self.listeners.setdefault(request_id, Listener())
        self.engine.open(request(request_id))
        return listener

    def feed(self, request_id: str, codes: Codes) -> None:
        self.engine.feed(request_id, {"codes": codes})

    def steps(self, count: int = 1) -> None:
        for _ in range(count):
            turn(self.engine)


def request(request_id: str) -> SpeechRequest:
    return SpeechRequest(request_id, "fake", "slt", "text", seed=7)


def codes(frames: int, seed: int = 0) -> Codes:
    return np.random.default_rng(seed).integers(0, 500, (frames, 4)).astype(np.int16)


def offline(sequence: Codes) -> list[int]:
    codec = FakeCodec("fake", DecodeCurve(), lambda _: None)
    state = codec.open(request("offline"))
    (samples,) = codec.decode([Work(state, {"codes": sequence}, final=True)])
    return to_pcm(samples).tolist()


def test_a_listener_with_seconds_in_hand_gets_one_piece_of_what_is_here() -> None:
    bench = Bench(stream_frames=5)
    listener = bench.open("a")
    sequence = codes(160)
    bench.feed("a", sequence[:110])
    bench.steps(22)
    sizes = [len(event.pcm) / 640 for event in listener.events if isinstance(event, DecodedAudio)]
    assert sizes == [4.45, *[5.0] * 15, 15.0, 15.0]  # from three seconds in hand on
    bench.feed("a", sequence[110:112])
    bench.steps()
    assert sum(sizes) * 640 < len(listener.pcm)  # nothing else is here: not waited for
    bench.engine.playback("a", bench.clock.now - 4.0)
    count = len(listener.events)
    bench.feed("a", sequence[112:])
    bench.steps(2)
    assert len(listener.events) == count + 2  # the listener has not much in hand any more
    bench.engine.finish("a")
    bench.steps(12)
    assert listener.pcm == offline(sequence)


def test_the_listener_who_runs_dry_first_is_served_first() -> None:
    bench = Bench(streams=1)
    listeners = {name: bench.open(name) for name in ("rich", "poor")}
    for name in listeners:
        bench.feed(name, codes(2))
    bench.steps(2)
    bench.engine.playback("rich", bench.clock.now + 50.0)
    bench.engine.playback("poor", bench.clock.now - 0.05)
    before = {name: len(listener.events) for name, listener in listeners.items()}
    for name in listeners:
        bench.feed(name, codes(2))
    bench.steps()
    assert len(listeners["poor"].events) == before["poor"] + 1
    assert len(listeners["rich"].events) == before["rich"]


def test_a_stream_without_frames_just_finishes() -> None:
    bench = Bench()
    listener = bench.open("a")
    bench.engine.finish("a")
    bench.steps()
    assert [type(event) for event in listener.events] == [Finished]
    assert bench.codec.batches == []
    assert bench.engine.idle


def test_a_failing_stream_leaves_the_others_unharmed() -> None:
    bench = Bench()
    sequence = codes(4)
    good, bad, fine = (bench.open(name) for name in ("good", "bad", "fine"))
    bench.feed("good", sequence)
    bench.feed("bad", np.full((3, 4), POISON, np.int16))
    bench.feed("fine", sequence)
    for name in ("good", "bad", "fine"):
        bench.engine.finish(name)
    bench.steps(3)
    assert str(bad.error) == "poison"
    assert good.pcm == fine.pcm == offline(sequence)
    assert bench.engine.idle


@pytest.mark.parametrize(
    "broken",
    [
        np.zeros((2, 3), np.int16),
        np.zeros((0, 4), np.int16),
        np.zeros(4, np.int16),
        np.full((1, 4), 512, np.int16),
        np.full((1, 4), -1, np.int16),
        np.zeros((1, 4), np.float32),
    ],
)
def test_codes_that_make_no_sense_end_their_stream_only(broken: Codes) -> None:
    bench = Bench()
    other, listener = bench.open("other"), bench.open("a")
    bench.feed("a", broken)
    bench.feed("other", codes(2))
    bench.steps()
    assert isinstance(listener.error, MalformedMessage)
    assert other.pcm


@pytest.mark.parametrize(
    ("samples", "said"),
    [(np.zeros(5), "instead of"), (np.full(640 - 352, np.nan), "not finite")],
)
def test_a_codec_that_owes_samples_or_numbers_is_found_out(samples: Any, said: str) -> None:
    bench = Bench()
    listener = bench.open("a")
    bench.feed("a", codes(1))
    bench.codec._tone = lambda work: samples.astype(np.float32)  # type: ignore[method-assign]
    bench.steps()
    assert said in str(listener.error)


def test_a_cancelled_stream_is_free_at_once_and_says_nothing_more() -> None:
    bench = Bench()
    listener = bench.open("a")
    bench.feed("a", codes(50))
    bench.steps()
    heard, freed = len(listener.events), []
    bench.engine.cancel("a", lambda: freed.append(bench.engine.idle))
    bench.feed("a", codes(5))
    bench.steps(2)
    assert freed == [True]
    assert bench.codec.closed == 1
    assert len(listener.events) == heard


def test_steps_are_measured_by_shape() -> None:
    bench = Bench()
    for name in "ab":
        bench.open(name)
        bench.feed(name, codes(3))
    bench.steps()
    assert bench.engine.step_table[2, 3] == pytest.approx(0.01)
    assert bench.engine.step_seconds[2] == pytest.approx(0.01)
    sample = bench.metrics.registry.get_sample_value
    assert sample("tts_stage_duration_seconds_count", {"stage": "vocoder"}) == 1
    assert sample("tts_batch_size_sum", {"stage": "vocoder"}) == 2
    assert sample("tts_active_streams", {"stage": "vocoder"}) == 2


def test_what_a_step_costs_follows_other_programs_at_once() -> None:
    usage = [(0.0, 0.0)]
    contention = Contention(lambda: 0.0, lambda: usage[-1])
    codec = FakeCodec("m", DecodeCurve(0.004, 0.001, 0.0001))
    engine = Engine(codec, slots=2, metrics=Metrics(), contention=contention)
    contention.measure()
    step_s, frame_s = engine.step_seconds, engine.frame_seconds
    usage.append((0.1, 0.3))  # one part work, three parts wait
    assert contention.measure() == pytest.approx(0.3)
    assert engine.frame_seconds == pytest.approx(4 * frame_s, rel=0.05)
    assert engine.step_seconds == {n: pytest.approx(4 * s, rel=0.05) for n, s in step_s.items()}
    assert step_s


TUNING = OfflineTuning()
FRAMES = 200


def open_job(bench: Bench, name: str, frames: int = FRAMES) -> Listener:
    listener = bench.listeners.setdefault(name, Listener())
    bench.engine.open(structs.replace(request(name), priority=OFFLINE))
    bench.feed(name, codes(frames))
    return listener


def test_none_is_decoded_while_a_listener_s_first_codes_are_awaited() -> None:
    bench = Bench()
    open_job(bench, "book")
    bench.steps()
    bench.open("heard")
    bench.codec.batches.clear()
    bench.steps(3)
    assert bench.codec.batches == []
    bench.clock.now += TUNING.first_s + 0.01
    bench.steps(1)
    assert len(bench.codec.batches) == 1


def test_none_is_decoded_beside_a_listener_who_has_little_left() -> None:
    bench = Bench()
    bench.open("heard")
    bench.feed("heard", codes(20))  # less than a second
    open_job(bench, "book")
    bench.steps(4)
    assert sum(map(sum, bench.codec.batches)) == 20
    bench.engine.playback("heard", bench.clock.now + TUNING.slack_s)
    bench.steps(1)
    assert sum(map(sum, bench.codec.batches)) > 20


def test_steps_are_short_while_a_listener_is_expected_and_full_again_later() -> None:
    bench = Bench()
    listener = open_job(bench, "book")
    bench.steps()
    assert bench.codec.batches == [[16]]
    bench.open("heard")
    bench.steps()
    bench.engine.cancel("heard")
    bench.clock.now += TUNING.first_s
    bench.codec.batches.clear()
    for _ in range(3):  # each step takes 10 ms, which is just as long as it may be
        bench.steps(2)
        bench.clock.now += 0.01
    assert [sum(batch) for batch in bench.codec.batches] == [1, 1, 1]
    bench.clock.now += TUNING.expected_s
    bench.codec.batches.clear()
    bench.steps()
    assert bench.codec.batches == [[16]]
    bench.engine.finish("book")
    bench.steps(FRAMES)
    assert listener.pcm == offline(codes(FRAMES))
