"""The engine on the fake codec, stepped by hand, with a clock that does not move by itself."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest

from tests.turning import turn
from tests.waits import TIMEOUT_S
from ttscommon.engine.inflight import DeviceError
from ttscommon.engine.pace import Contention
from ttscommon.engine.runtime import Stopped
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import MalformedMessage, UnknownVoice
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Decoded, Work
from ttsfamilies.fake.codec import DecodeCurve, FakeCodec
from vocoder.engine.engine import Engine
from vocoder.engine.scheduler import BatchLimits
from vocoder.engine.stream import DecodedAudio, Event, Failed, Finished, Resume
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

    def open(self, request_id: str, skip: int = 0, voice: str = "slt") -> Listener:
        listener = self.listeners.setdefault(request_id, Listener())
        self.engine.open(request(request_id, voice), Resume(skip))
        return listener

    def feed(self, request_id: str, codes: Codes) -> None:
        self.engine.feed(request_id, {"codes": codes})

    def steps(self, count: int = 1) -> None:
        for _ in range(count):
            turn(self.engine)


def request(request_id: str, voice: str = "slt") -> SpeechRequest:
    return SpeechRequest(request_id, "fake", voice, "text", seed=7)


def codes(frames: int, seed: int = 0) -> Codes:
    return np.random.default_rng(seed).integers(0, 500, (frames, 4)).astype(np.int16)


def offline(sequence: Codes) -> list[int]:
    codec = FakeCodec("fake", DecodeCurve(), lambda _: None)
    state = codec.open(request("offline"))
    (samples,) = codec.decode([Work(state, {"codes": sequence}, final=True)])
    return to_pcm(samples).tolist()


def test_pieces_of_any_size_add_up_to_the_whole() -> None:
    bench = Bench(stream_frames=3)
    listener = bench.open("a")
    sequence = codes(20)
    for start, stop in ((0, 1), (1, 9), (9, 20)):
        bench.feed("a", sequence[start:stop])
        bench.steps(2)
    bench.engine.finish("a")
    bench.steps(5)
    assert listener.pcm == offline(sequence)
    assert isinstance(listener.events[-1], Finished)
    assert bench.engine.idle


def test_streams_are_decoded_together() -> None:
    bench = Bench()
    for name in "abc":
        bench.open(name)
        bench.feed(name, codes(2))
    bench.steps()
    assert bench.codec.batches == [[2, 2, 2]]


def test_a_long_chunk_lets_others_in_between() -> None:
    bench = Bench(stream_frames=4, frames=8)
    bench.open("long")
    bench.feed("long", codes(100))
    bench.steps(3)
    late = bench.open("late")
    bench.feed("late", codes(2))
    bench.steps()
    assert late.pcm
    assert max(sum(batch) for batch in bench.codec.batches) <= 8


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


def test_what_a_predecessor_sent_is_decoded_and_not_sent_again() -> None:
    sequence = codes(12)
    for skip in (1, 640 - 352, 5000, 12 * 640 - 1, 12 * 640):
        bench = Bench(stream_frames=5)
        listener = bench.open("a", skip=skip)
        bench.feed("a", sequence)
        bench.engine.finish("a")
        bench.steps(6)
        assert listener.pcm == offline(sequence)[skip:]
        assert isinstance(listener.events[-1], Finished)


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


def test_a_codec_that_owes_samples_is_found_out() -> None:
    bench = Bench()
    listener = bench.open("a")
    bench.codec.spec = bench.engine.spec
    object.__setattr__(bench.engine.spec, "lag_samples", 351)
    bench.feed("a", codes(1))
    bench.codec._tone = lambda work: np.zeros(5, np.float32)  # type: ignore[method-assign]
    bench.steps()
    assert "instead of" in str(listener.error)


def test_an_unknown_voice_is_the_requests_failure() -> None:
    bench = Bench()
    listener = bench.open("a", voice="nobody")
    bench.steps()
    assert isinstance(listener.error, UnknownVoice)
    assert bench.engine.idle


def test_no_more_streams_than_slots() -> None:
    bench = Bench(slots=1)
    bench.open("a")
    second, again = bench.open("b"), bench.open("a")
    bench.steps()
    assert isinstance(second.events[-1], Failed)
    assert isinstance(again.events[-1], Failed)
    bench.engine.cancel("a")
    bench.steps()
    assert bench.engine.idle
    assert bench.codec.closed == 1


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


def test_the_guilty_stream_is_found_by_halving() -> None:
    bench = Bench(slots=16, streams=16, frames=64)
    for index in range(15):
        bench.open(f"good{index}")
        bench.feed(f"good{index}", codes(2))
    bad = bench.open("bad")
    bench.feed("bad", np.full((2, 4), POISON, np.int16))
    bench.steps()
    assert sorted(len(batch) for batch in bench.codec.batches) == [1, 2, 4, 8]
    assert str(bad.error) == "poison"


def test_an_error_of_the_device_ends_the_engine_and_blames_no_stream() -> None:
    class Lost(RecordingCodec):
        def collect(self, ticket: object) -> list[Decoded]:
            raise DeviceError("gone")

    died = threading.Event()
    engine = Engine(Lost(Clock()), slots=2, metrics=Metrics(), died=died.set)
    listener = Listener()
    engine.listen(lambda events: listener.events.extend(event for _, event in events))
    engine.open(request("a"))
    engine.feed("a", {"codes": codes(2)})
    engine.start()
    assert died.wait(60)
    assert isinstance(engine.error, DeviceError)
    assert isinstance(listener.error, Stopped)
    assert engine.idle


def test_the_thread_beats_and_stops() -> None:
    beats = threading.Semaphore(0)
    engine = Engine(RecordingCodec(Clock()), slots=2, metrics=Metrics(), beat=beats.release)
    listener, heard = Listener(), threading.Event()

    def listen(events: Sequence[tuple[str, Event]]) -> None:
        listener.events.extend(event for _, event in events)
        heard.set()

    engine.listen(listen)
    engine.start()
    assert beats.acquire(timeout=TIMEOUT_S)
    engine.open(request("a"))
    engine.feed("a", {"codes": codes(2)})
    assert heard.wait(TIMEOUT_S)
    engine.stop()
    assert isinstance(listener.error, Stopped)
    assert engine.idle
    with pytest.raises(Stopped):
        engine.open(request("b"))


def test_an_engine_whose_codec_cannot_let_go_of_a_state_dies_and_says_so() -> None:
    class Unwell(RecordingCodec):
        def close(self, state: object) -> None:
            raise MemoryError("broken")

    died = threading.Event()
    engine = Engine(Unwell(Clock()), slots=2, metrics=Metrics(), died=died.set)
    engine.open(request("a"))
    engine.open(request("b"))
    engine.cancel("a")
    engine.start()
    assert died.wait(60)
    assert isinstance(engine.error, MemoryError)
    freed = threading.Event()
    engine.cancel("b", freed.set)
    assert freed.is_set()


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
