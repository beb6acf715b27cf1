"""Whole segments in the engine: in bounded steps, the same however they are stepped."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.turning import turn
from tests.unit.ttsfamilies.kokoro.codec.tiny import tiny
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.fields import Array, concatenate, cut, rows
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Work
from ttsfamilies.base.codec.silences import Silences
from ttsfamilies.kokoro import codec, generator
from ttsfamilies.kokoro.codec import example
from vocoder.engine.engine import Engine
from vocoder.engine.stream import DecodedAudio, Event, Failed, Finished
from vocoder.pcm import to_pcm


def segment(frames: int, hertz: float = 140.0) -> dict[str, Array]:
    found = example(tiny().spec, frames)
    found["symbol"][:] = 43 + found["place"] % 20
    found["curves"][:, :2] = hertz
    return found


class Run:
    """An engine stepped by hand, and what each of its streams gave."""

    def __init__(self) -> None:
        self.engine = Engine(Silences(tiny()), slots=4, metrics=Metrics())
        self.engine.listen(self._listen)
        self.events: list[tuple[str, Event]] = []
        self.steps = 0

    def _listen(self, events: Sequence[tuple[str, Event]]) -> None:
        self.events.extend(events)

    def open(self, name: str, frames: dict[str, Array], *, ended: bool = True) -> None:
        self.engine.open(SpeechRequest(name, "m", "af_sky", "", seed=3))
        self.engine.feed(name, frames)
        if ended:
            self.engine.finish(name)

    def step(self) -> None:
        turn(self.engine)
        self.steps += 1

    def finish(self, *names: str) -> None:
        for _ in range(3000):
            if self.ended() >= set(names):
                return
            self.step()
        raise AssertionError("a stream did not end")

    def ended(self) -> set[str]:
        return {key for key, event in self.events if isinstance(event, Finished | Failed)}

    def pcm(self, name: str) -> Any:
        pieces = [e.pcm for key, e in self.events if key == name and isinstance(e, DecodedAudio)]
        return np.concatenate(pieces)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_STEP", 2_000_000)
    monkeypatch.setattr(generator, "_WORK", 1_000_000)


def whole(frames: dict[str, Array]) -> Any:
    state = tiny().open(SpeechRequest("w", "m", "af_sky", "", seed=3))
    return tiny().decode([Work(state, frames, final=True)])[0]


def test_the_work_on_a_segment_is_bounded_whatever_its_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(generator, "_WORK", 1_000_000)
    most = []
    for frames in (20, 160):
        state = tiny().open(SpeechRequest("w", "m", "af_sky", ""))
        pieces = tiny()._pieces(state, segment(frames), 0)
        # But for the source and eight layers, most of them at the frame rate, all are stretches.
        most.append(sorted(pieces)[-19])
    assert 0 < most[0] <= most[1] <= 1_000_000


@pytest.mark.usefixtures("small_steps")
def test_a_long_segment_is_not_in_front_of_a_first_sound() -> None:
    run = Run()
    run.open("long", segment(160))
    for _ in range(5):
        run.step()
    run.open("short", segment(20))
    run.finish("short")
    assert not [key for key, _ in run.events if key == "long"]
    run.finish("long")
    assert len(run.pcm("long")) == 160 * 600


@pytest.mark.usefixtures("small_steps")
def test_stepped_in_company_it_is_what_it_is_at_once() -> None:
    # The same stretches of convolutions, all in one step.
    frames = concatenate([segment(30), segment(21, 200.0)])
    run = Run()
    run.open("a", frames)
    run.open("b", segment(44))
    run.finish("a", "b")
    assert run.steps > 50
    np.testing.assert_array_equal(run.pcm("a"), to_pcm(whole(frames)))


def test_nothing_is_heard_before_the_segment_is_there() -> None:
    run = Run()
    run.open("a", cut(segment(30), 0, 29), ended=False)
    for _ in range(5):
        run.step()
    assert not run.events
    run.engine.feed("a", cut(segment(30), 29, 30))
    run.engine.finish("a")
    run.finish("a")
    assert len(run.pcm("a")) == 30 * 600


def test_a_segment_that_is_cut_off_is_heard_as_far_as_it_goes() -> None:
    run = Run()
    run.open("a", cut(segment(30), 0, 20))
    run.finish("a")
    assert len(run.pcm("a")) == 20 * 600


def test_segments_around_a_silence_are_those_without_it_at_their_places() -> None:
    run = Run()
    flags = {"silent": np.zeros(20, np.uint8)}
    silent = {**example(tiny().spec, 10), "silent": np.ones(10, np.uint8)}
    run.open("a", concatenate([segment(20) | flags, silent, segment(20) | flags]))
    run.finish("a")
    pcm = run.pcm("a")
    assert len(pcm) == 50 * 600
    assert not pcm[20 * 600 : 30 * 600].any()
    plain = concatenate([segment(20), segment(10), segment(20)])
    np.testing.assert_array_equal(pcm[30 * 600 :], to_pcm(whole(plain))[30 * 600 :])


def test_a_segment_of_too_many_symbols_fails_its_own_stream() -> None:
    run = Run()
    long = segment(600)
    long["place"][:] = np.arange(600)
    run.open("long", long)
    run.open("fine", segment(10))
    run.finish("long", "fine")
    (failed,) = [event for key, event in run.events if key == "long"]
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, MalformedMessage)
    assert len(run.pcm("fine")) == 600 * 10


def test_what_a_frame_costs_is_what_its_segment_cost() -> None:
    run = Run()
    run.open("a", segment(64))
    run.finish("a")
    ((shape, seconds),) = run.engine.step_table.items()
    assert shape == (1, 16)
    # Giving out a step's samples takes far less.
    assert seconds > 16 * 1e-5


def test_warmed_up_it_knows_what_a_frame_of_a_usual_segment_costs() -> None:
    codec = tiny()
    codec.warm_up([(1, 16), (16, 2)])
    one, many = codec.measured_step_s[1, 16], codec.measured_step_s[16, 2]
    assert one > 0.0
    assert many == pytest.approx(2 * one)


def test_a_state_that_failed_begins_its_segment_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = tiny()
    state = codec.open(SpeechRequest("w", "m", "af_sky", "", seed=3))
    work = Work(state, codec.spec.none(), final=False, segment=segment(20))

    def broken(*_: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(codec, "_pieces", broken)
        with pytest.raises(MemoryError):
            codec.launch([work])
    prepared = False
    while not prepared:
        (given,) = codec.collect(codec.launch([work]))
        prepared = given.prepared
        assert not len(given.samples)
    (found,) = codec.decode([Work(state, segment(20), final=True)])
    np.testing.assert_array_equal(found, whole(segment(20)))
    assert rows(segment(20)) == 20
