"""Logged silence through the engine: exact zeros, and whoever goes on says what would have come."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.late import Late
from tests.turning import turn
from tests.unit.ttsfamilies.base.codec.test_delayed import delayed
from tests.unit.ttsfamilies.codecs import snac
from tests.unit.ttsfamilies.qwen3_tts.codec.tiny import tiny as qwen3
from tests.unit.ttsfamilies.qwen3_tts.codec.tiny import tiny_on
from tests.unit.vocoder.test_conformance import Heard, fake, near
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.fields import Arrays, concatenate, cut, rows
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, Work
from ttsfamilies.base.codec.options import DeviceLimits
from ttsfamilies.base.codec.silences import Silences
from vocoder.engine.engine import Engine
from vocoder.engine.scheduler import BatchLimits
from vocoder.engine.stream import DecodedAudio, Failed, Finished, Resume, first_frame
from vocoder.pcm import to_pcm

Pcm = npt.NDArray[np.int16]

# Frames that are said, and silent ones between them; some parts are shorter than what SNAC, or a
# fake that looks ahead, holds back.
PLAN = ((0, 3), (7, 1), (2, 6), (1, 1), (24, 4), (3, 9), (0, 2))
SAID = sum(said for said, _ in PLAN)
FLAGS = np.array([flag for said, quiet in PLAN for flag in [0] * said + [1] * quiet], np.uint8)

CODECS: dict[str, Callable[[], Codec]] = {
    "Qwen3-TTS": qwen3,
    "Qwen3-TTS in windows": partial(qwen3, 20, 5),
    "Qwen3-TTS in windows on a device": lambda: tiny_on(Late(), DeviceLimits(), 20, 5),
    "SNAC": snac,
    "fake with a lookahead": partial(fake, lookahead_frames=3),
    "fake with a delay pattern": delayed,
    "fake with a reference, on a grid, a step behind": partial(
        fake, lookahead_frames=2, grid=3, reference_frames=40, depth=1
    ),
}

# Carried state, and what toys show.
QUICK = ("Qwen3-TTS", *(name for name in CODECS if name.startswith("fake")))


@cache
def codec_of(name: str) -> Codec:
    return CODECS[name]()


@pytest.fixture(
    params=[
        pytest.param(each, marks=() if each in QUICK else pytest.mark.slow)
        for each in sorted(CODECS)
    ]
)
def plain(request: pytest.FixtureRequest) -> Codec:
    return codec_of(request.param)


def frames_of(codec: Codec) -> Arrays:
    """A request's frames: what silent ones hold means nothing."""
    ((name, frame),) = codec.spec.frame.items()
    drawn = np.random.default_rng(3).integers(0, frame.limit or 500, (len(FLAGS), *frame.shape))
    return {name: drawn.astype(np.int16), "silent": FLAGS}


def request(name: str = "a") -> SpeechRequest:
    return SpeechRequest(name, "m", "slt", "text", seed=5)


def speak(
    codec: Codec,
    frames: Arrays,
    behind: DecodedAudio | None = None,
    skip: int = 0,
    sizes: Any = (3, 1, 7),
) -> Heard:
    """As one vocoder does, or as the successor of one whose last piece was `behind`."""
    heard = Heard()
    engine = Engine(codec, slots=3, metrics=Metrics(), limits=BatchLimits(stream_frames=16))
    engine.listen(heard)
    resume = Resume(skip, behind.frame, behind.mark) if behind else Resume()
    prefix = engine.prefix(request())
    engine.open(request(), resume, prefix)
    engine.open(request("beside"), Resume(), prefix)
    engine.feed("beside", cut(frames, 0, 5))
    at, turn = first_frame(codec.spec, resume.frame, prefix), 0
    while at < rows(frames):
        stop = min(at + sizes[turn % len(sizes)], rows(frames))
        engine.feed("a", cut(frames, at, stop))
        at, turn = stop, turn + 1
        step(engine, 3)
    engine.finish("a")
    engine.finish("beside")
    step(engine, 12)
    assert isinstance(heard[-1], Finished), heard[-1]
    assert engine.idle
    return heard


def step(engine: Engine, times: int) -> None:
    for _ in range(times):
        turn(engine)


def test_silence_is_zeros_and_lasts_as_long_as_its_frames(plain: Codec) -> None:
    heard = speak(Silences(plain), frames_of(plain))
    per_frame = plain.spec.samples_per_frame
    assert len(heard.pcm) == plain.spec.samples(len(FLAGS), final=True)
    by_frame = heard.pcm.reshape(-1, per_frame)
    sounds = sounding(plain.spec.delay_frames)[: len(by_frame)]
    assert not by_frame[~sounds].any()
    assert by_frame[sounds].any(1).all()


def sounding(delay: int) -> npt.NDArray[np.bool_]:
    """[frames]: what was said, but for the last of each part where codes are delayed."""
    found = [[i < said - delay for i in range(said)] + [False] * quiet for said, quiet in PLAN]
    return np.array([sounds for part in found for sounds in part])


def test_what_follows_a_silence_begins_as_a_request_does() -> None:
    """A part's samples are those of its frames alone. (Noise, tones and windows of other codecs
    follow absolute positions.)
    """
    plain = qwen3()
    frames = frames_of(plain)
    pcm, per_frame, at = speak(Silences(plain), frames).pcm, plain.spec.samples_per_frame, 0
    for said, quiet in PLAN:
        part = {"codes": frames["codes"][at : at + said]}
        if said:
            (alone,) = plain.decode([Work(plain.open(request()), part, final=True)])
            heard = pcm[at * per_frame : (at + said) * per_frame]
            assert near(plain, heard, to_pcm(alone))
        at += said + quiet


def test_a_successor_behind_any_piece_says_the_same(plain: Codec) -> None:
    codec, frames = Silences(plain), frames_of(plain)
    whole = speak(codec, frames)
    position = 0
    for at, piece in enumerate(whole.pieces[:-1]):
        position += len(piece.pcm)
        if "fake" not in plain.spec.family and at % 3 == 1:
            continue
        rest = speak(codec, frames, piece, position, sizes=(5, 2))
        assert near(codec, rest.pcm, whole.pcm[position:]), (position, piece.frame)


@pytest.mark.parametrize("name", ["Qwen3-TTS", "fake with a lookahead"])
def test_without_silence_nothing_is_changed(name: str) -> None:
    plain = codec_of(name)
    frames = {name: array for name, array in frames_of(plain).items() if name != "silent"}
    np.testing.assert_array_equal(speak(Silences(plain), frames).pcm, speak(plain, frames).pcm)


def test_the_end_of_a_reference_goes_before_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The codec sees the reference's last 25 frames again, unheard."""
    codec, shown = qwen3(), list[int]()
    codes = np.random.default_rng(8).integers(0, 30, (40, 4)).astype(np.int16)
    launch = codec.launch

    def watched(batch: Any) -> Any:
        shown.extend(len(work) for work in batch)
        return launch(batch)

    monkeypatch.setattr(codec, "launch", watched)
    monkeypatch.setattr(codec, "prefix", lambda *_: {"codes": codes})
    frames = {"codes": frames_of(codec)["codes"], "silent": FLAGS}
    heard = speak(Silences(codec), frames, sizes=(len(FLAGS),))
    lead = {"codes": codes[15:]}
    at = PLAN[0][1]
    said = {"codes": frames["codes"][at : at + PLAN[1][0]]}
    work = Work(codec.open(request()), concatenate([lead, said]), final=True)
    (alone,) = qwen3().decode([work])
    per_frame = codec.spec.samples_per_frame
    expected = to_pcm(alone[25 * per_frame :])
    got = heard.pcm[at * per_frame : (at + PLAN[1][0]) * per_frame]
    assert near(codec, got, expected)
    assert 25 + PLAN[1][0] in shown


def test_flags_that_are_none_fail_their_own_stream(plain: Codec) -> None:
    heard = Heard()
    engine = Engine(Silences(plain), slots=2, metrics=Metrics())
    engine.listen(heard)
    engine.open(request(), Resume(), engine.prefix(request()))
    engine.feed("a", {**frames_of(plain), "silent": FLAGS + 2})
    step(engine, 3)
    assert isinstance(heard[-1], Failed)
    assert isinstance(heard[-1].error, MalformedMessage)
    assert engine.idle


def test_a_launch_that_fails_is_tried_again_without_a_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stream beside a poisoned one goes through its silences as if it were alone."""
    codec = qwen3()
    launch = codec.launch

    def choosy(batch: Any) -> Any:
        if any(len(work) and work.frames["codes"][0, 0] == 31 for work in batch):
            raise ValueError("poisoned")
        return launch(batch)

    monkeypatch.setattr(codec, "launch", choosy)
    frames = {"codes": frames_of(codec)["codes"] % 31, "silent": FLAGS}
    alone = speak(Silences(codec), frames).pcm
    heard = Heard()
    engine = Engine(
        Silences(codec), slots=3, metrics=Metrics(), limits=BatchLimits(stream_frames=16)
    )
    engine.listen(heard)
    engine.open(request())
    for at in range(0, len(FLAGS), 2):
        engine.open(request(f"bad{at}"))
        engine.feed(f"bad{at}", {"codes": np.full((1, 4), 31, np.int16)})
        engine.feed("a", cut(frames, at, min(at + 2, len(FLAGS))))
        step(engine, 2)
    engine.finish("a")
    step(engine, 6)
    assert isinstance(heard[-1], Finished)
    assert near(codec, heard.pcm, alone)
    assert engine.idle
