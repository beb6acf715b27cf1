"""Whole segments in the engine: in bounded steps, the same however they are stepped."""

from typing import Any

import numpy as np
import pytest

from tests.unit.ttsfamilies.codecs import Run, kokoro
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.fields import Array, concatenate, cut, rows
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Work
from ttsfamilies.base.codec.silences import Silences
from ttsfamilies.kokoro import codec, generator
from ttsfamilies.kokoro.codec import example
from vocoder.engine.stream import Failed
from vocoder.pcm import to_pcm


def segment(frames: int, hertz: float = 140.0) -> dict[str, Array]:
    found = example(kokoro().spec, frames)
    found["symbol"][:] = 43 + found["place"] % 20
    found["curves"][:, :2] = hertz
    return found


def request(name: str = "w") -> SpeechRequest:
    return SpeechRequest(name, "m", "af_sky", "", seed=3)


def opened(**streams: dict[str, Array]) -> Run:
    """A run of streams by name, all of whose frames are there."""
    run = Run(Silences(kokoro()))
    for name, frames in streams.items():
        run.begin(request(name), frames)
    return run


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_STEP", 2_000_000)
    monkeypatch.setattr(generator, "_WORK", 1_000_000)


def whole(frames: dict[str, Array]) -> Any:
    state = kokoro().open(request())
    return kokoro().decode([Work(state, frames, final=True)])[0]


def test_the_work_on_a_segment_is_bounded_whatever_its_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(generator, "_WORK", 1_000_000)
    most = []
    for frames in (20, 160):
        state = kokoro().open(request())
        pieces = kokoro()._pieces(state, segment(frames), 0)
        # But for the source and eight layers, most of them at the frame rate, all are stretches.
        most.append(sorted(pieces)[-19])
    assert 0 < most[0] <= most[1] <= 1_000_000


@pytest.mark.usefixtures("small_steps")
def test_a_long_segment_is_not_in_front_of_a_first_sound() -> None:
    run = opened(long=segment(160))
    run.step(5)
    run.begin(request("short"), segment(20))
    run.finish("short")
    assert not run.heard["long"]
    run.finish("long")
    assert len(run.pcm("long")) == 160 * 600


@pytest.mark.usefixtures("small_steps")
def test_stepped_in_company_it_is_what_it_is_at_once() -> None:
    # The same stretches of convolutions, all in one step.
    frames = concatenate([segment(30), segment(21, 200.0)])
    run = opened(a=frames, b=segment(44))
    run.finish("a", "b")
    assert run.steps > 50
    np.testing.assert_array_equal(run.pcm("a"), to_pcm(whole(frames)))


def test_a_segment_that_is_cut_off_is_heard_as_far_as_it_goes() -> None:
    run = opened(a=cut(segment(30), 0, 20))
    run.finish("a")
    assert len(run.pcm("a")) == 20 * 600


def test_segments_around_a_silence_are_those_without_it_at_their_places() -> None:
    flags = {"silent": np.zeros(20, np.uint8)}
    silent = {**example(kokoro().spec, 10), "silent": np.ones(10, np.uint8)}
    run = opened(a=concatenate([segment(20) | flags, silent, segment(20) | flags]))
    run.finish("a")
    pcm = run.pcm("a")
    assert len(pcm) == 50 * 600
    assert not pcm[20 * 600 : 30 * 600].any()
    plain = concatenate([segment(20), segment(10), segment(20)])
    np.testing.assert_array_equal(pcm[30 * 600 :], to_pcm(whole(plain))[30 * 600 :])


def test_a_segment_of_too_many_symbols_fails_its_own_stream() -> None:
    long = segment(600)
    long["place"][:] = np.arange(600)
    run = opened(long=long, fine=segment(10))
    run.finish("long", "fine")
    (failed,) = run.heard["long"]
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, MalformedMessage)
    assert len(run.pcm("fine")) == 600 * 10


def test_what_a_frame_costs_is_what_its_segment_cost() -> None:
    run = opened(a=segment(64))
    run.finish("a")
    ((shape, seconds),) = run.engine.step_table.items()
    assert shape == (1, 16)
    # Giving out a step's samples takes far less.
    assert seconds > 16 * 1e-5


def test_warmed_up_it_knows_what_a_frame_of_a_usual_segment_costs() -> None:
    codec = kokoro()
    codec.warm_up([(1, 16), (16, 2)])
    one, many = codec.measured_step_s[1, 16], codec.measured_step_s[16, 2]
    assert one > 0.0
    assert many == pytest.approx(2 * one)


def test_a_state_that_failed_begins_its_segment_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = kokoro()
    state = codec.open(request())
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
