"""What every codec family owes recovery: gone on with behind any piece, nobody hears it.

A new family joins by one line in FAMILIES.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.late import Late
from tests.turning import turn
from tests.unit.ttsfamilies import codecs
from tests.unit.ttsfamilies.cosyvoice.s3_flow.tiny import tiny as s3_flow
from tests.unit.ttsfamilies.cosyvoice.s3_flow.tiny import tiny_on as s3_flow_on
from tests.unit.ttsfamilies.qwen3_tts.codec import tiny as qwen3
from tests.unit.vocoder.tiny_vesper import tiny, tiny_on
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import BadRequest, MalformedMessage
from ttscommon.wire.fields import Field, concatenate, cut, rows
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, Work
from ttsfamilies.base.codec.options import CodecOptions, DeviceLimits
from ttsfamilies.fake.codec import CodecManner, DecodeCurve, FakeCodec
from ttsfamilies.kokoro.codec import example
from vocoder.engine.engine import Engine
from vocoder.engine.scheduler import BatchLimits
from vocoder.engine.stream import DecodedAudio, Event, Failed, Finished, Resume, first_frame
from vocoder.pcm import to_pcm

FRAMES = 90
# What a talker derived of a recording.
DERIVED = {"speaker": np.array([[20.0, 3.0]], np.float32)}
PIECES = (1, 1, 2, 3, 12, 16, 1, 5, 16, 9, 1, 16, 7)


def fake(**manner: object) -> Codec:
    return FakeCodec("m", DecodeCurve(), lambda _: None, CodecManner(**manner))  # type: ignore[arg-type]


def on_a_device(make: Callable[..., Codec], *more: Any) -> Callable[[], Codec]:
    return cache(lambda: make(Late(), DeviceLimits(), *more))


def late(make: Callable[[CodecOptions], Codec]) -> Callable[[], Codec]:
    return cache(lambda: make(CodecOptions(device=Late())))


vesper = cache(tiny)
grid_on_a_device = partial(on_a_device, s3_flow_on, "chatterbox_turbo", 25)

FAMILIES: dict[str, Callable[[], Codec]] = {
    "vesper": vesper,
    "vesper on a device": on_a_device(tiny_on),
    "Qwen3-TTS in windows on a device": on_a_device(qwen3.tiny_on, 20, 5),
    "Qwen3-Omni": codecs.qwen3_omni,
    "SNAC": codecs.snac,
    "DAC, whose codes are delayed": codecs.dac,
    "Piper": codecs.piper,
    "Tacotron 2": codecs.tacotron2,
    "Tacotron 2 in chunks": codecs.overlapping,
    "Mimi": codecs.mimi,
    "Kokoro": codecs.kokoro,
    "Mimi on a device": late(codecs.mimi),
    "Pocket TTS": codecs.pocket_tts,
    "Pocket TTS on a device": late(codecs.pocket_tts),
    "Higgs Audio": codecs.higgs_audio,
    "VoxCPM2": codecs.voxcpm2,
    "VoxCPM2 on a device": late(codecs.voxcpm2),
    "Fish Audio S2": codecs.fish_s2,
    "fake": fake,
    "fake with float frames": partial(fake, float_frames=True),
    "fake with a lookahead": partial(fake, lookahead_frames=3),
    "fake on a grid": partial(fake, grid=5),
    "fake with a reference": partial(fake, reference_frames=11),
    "fake with conditions": partial(fake, conditioned=True),
    "fake with all of it, a step behind": partial(
        fake,
        float_frames=True,
        lookahead_frames=2,
        grid=3,
        reference_frames=4,
        depth=1,
        conditioned=True,
    ),
    "Qwen3-Omni on a device": late(codecs.qwen3_omni),
    "CosyVoice 2": partial(s3_flow, "cosyvoice2"),
    "Fun-CosyVoice 3": partial(s3_flow, "cosyvoice3"),
    "CosyVoice 2 without memory": partial(s3_flow, "cosyvoice2", memory=0),
    "Step-Audio 2": partial(s3_flow, "step_audio2"),
    "Step-Audio 2 without memory": partial(s3_flow, "step_audio2", memory=0),
    "Chatterbox": partial(s3_flow, "chatterbox"),
    "Chatterbox Turbo on the grid": partial(s3_flow, "chatterbox_turbo", 25),
    "Chatterbox Turbo on the grid on a device": grid_on_a_device(1 << 26),
    "Chatterbox Turbo on the grid on a device without memory": grid_on_a_device(0),
    "Fish Audio S2 on a device": late(codecs.fish_s2),
    "GLM-4-Voice": codecs.glm_voice,
}
TOYS = tuple(name for name in FAMILIES if name.startswith("fake"))
# Its own, a lookahead, whole segments; toys. tests/parity/test_codecs.py says of windows (SNAC), a
# delay pattern (DAC) and carried state (Mimi) that pieces and a successor give the same samples.
QUICK = ("vesper", "vesper on a device", "Piper", "Kokoro", *TOYS)


def quick(names: Sequence[str]) -> pytest.MarkDecorator:
    """Every family; the others are slow."""
    return pytest.mark.parametrize(
        "family",
        [
            pytest.param(load, id=name, marks=() if name in names else pytest.mark.slow)
            for name, load in FAMILIES.items()
        ],
    )


Pcm = npt.NDArray[np.int16]


class Heard(list[Event]):
    """An engine's listener."""

    def __call__(self, events: Sequence[tuple[str, Event]]) -> None:
        self.extend(event for key, event in events if key == "a")

    @property
    def pieces(self) -> list[DecodedAudio]:
        return [event for event in self if isinstance(event, DecodedAudio)]

    @property
    def pcm(self) -> Pcm:
        return np.concatenate([piece.pcm for piece in self.pieces])


def request(name: str) -> SpeechRequest:
    return SpeechRequest(name, "m", "slt", "text", seed=5)


def sequence(codec: Codec, first: int = 0, last: int = FRAMES) -> dict[str, npt.NDArray[Any]]:
    """A request's frames, as the codec wants them."""
    if codec.spec.left:
        return cut(_of_segments(codec.spec), first, last)
    return {name: _of_field(name, frame)[first:last] for name, frame in codec.spec.frame.items()}


def _of_field(name: str, frame: Field) -> npt.NDArray[Any]:
    """[FRAMES, ...] of one field."""
    if name == "passage":
        return (np.arange(FRAMES) // 37).astype(np.int16)
    if frame.dtype == "u1":
        return (np.arange(FRAMES) % 37 == 0).astype("u1")
    drawn = np.random.default_rng(3).integers(
        0, min(500, frame.limit or 500), (FRAMES, *frame.shape)
    )
    codes = drawn.astype(np.int16)
    return codes / np.float32(512) if frame.dtype == "f4" else codes


def _of_segments(spec: CodecSpec) -> dict[str, npt.NDArray[Any]]:
    """Segments of several lengths, each of another height."""
    parts = []
    for number, frames in enumerate((7, 16, 1, 12, 15, 16, 9, 14)):
        segment = example(spec, frames) if "symbol" in spec.frame else _of_tokens(number, frames)
        if "symbol" in segment:
            segment["symbol"][:] = 40 + segment["place"]
            segment["curves"][:] = 100 + 20 * number
        parts.append(segment)
    found = concatenate(parts)
    assert rows(found) == FRAMES
    return found


def _of_tokens(number: int, frames: int) -> dict[str, npt.NDArray[Any]]:
    """A sentence of S3 tokens."""
    tokens = np.random.default_rng(number).integers(0, 6561, frames).astype(np.int16)
    left = np.arange(frames, dtype=np.int32)[::-1].copy()
    return {"token": tokens, "passage": np.full(frames, number, np.int32), "left": left}


def speak(
    codec: Codec, behind: DecodedAudio | None = None, skip: int = 0, sizes: Sequence[int] = PIECES
) -> tuple[Heard, int]:
    """Undisturbed, or as the successor of one whose last piece was `behind`. sizes: of how many
    frames come together; the rest at once.

    Returns what was heard, and how many of the request's frames were decoded for it.
    """
    heard = Heard()
    engine = Engine(codec, slots=2, metrics=Metrics(), limits=BatchLimits(stream_frames=16))
    engine.listen(heard)
    resume = Resume(skip, behind.frame, behind.mark) if behind else Resume()
    prefix = engine.prefix(request("a"))
    engine.open(request("a"), resume, prefix, engine.conditions(request("a"), DERIVED))
    begin = start = first_frame(codec.spec, resume.frame, prefix)
    for size in (*sizes, FRAMES):
        stop = min(start + size, FRAMES)
        if stop > start:
            engine.feed("a", sequence(codec, start, stop))
        if stop == FRAMES:
            engine.finish("a")
        # The work on a segment takes some steps of its own, on several more.
        segments = 1 + (stop - start) // 16
        for _ in range(4 + (stop - start) // 8 + segments * _steps(codec.spec)):
            turn(engine)
        start = stop
        if stop == FRAMES:
            break
    assert isinstance(heard[-1], Finished), heard
    assert engine.idle
    return heard, FRAMES - begin


def _steps(spec: CodecSpec) -> int:
    """Of preparing what one piece may bring."""
    return 5 * spec.solver_steps if spec.solves else 30 * bool(spec.left)


def near(codec: Codec, one: Pcm, other: Pcm) -> bool:
    """The same, but for the steps that the codec owns up to."""
    same = len(one) == len(other)
    return same and int(np.abs(one.astype(int) - other).max(initial=0)) <= codec.spec.tolerance


@quick(QUICK)
def test_one_shot_and_pieces_give_the_same(family: Callable[[], Codec]) -> None:
    codec = family()
    state = codec.open(request("a"))
    prefix, conditions = codec.prefix(request("a")), codec.conditions(request("a"), DERIVED)
    if conditions is not None:
        codec.tell(state, conditions)
    frames = sequence(codec) if prefix is None else concatenate([prefix, sequence(codec)])
    (samples,) = codec.decode([Work(state, frames, final=True)])
    before = 0 if prefix is None else rows(prefix)
    whole = to_pcm(samples[before * codec.spec.samples_per_frame :])
    heard, _ = speak(codec)
    assert len(heard.pcm) == len(whole) == codec.spec.samples(FRAMES, final=True)
    assert np.abs(heard.pcm.astype(int) - whole).max() <= max(1, codec.spec.tolerance)


@quick(QUICK)
def test_resumed_behind_any_piece_equals_undisturbed(family: Callable[[], Codec]) -> None:
    codec = family()
    whole, _ = speak(codec)
    position = 0
    replayed = []
    for piece in whole.pieces[:-1]:
        position += len(piece.pcm)
        rest, decoded = speak(codec, piece, position)
        assert near(codec, rest.pcm, whole.pcm[position:]), (position, piece.frame)
        replayed.append(decoded - (FRAMES - position // codec.spec.samples_per_frame))
    # A bounded context is all that is decoded again, however long the stream was.
    spec = codec.spec
    # A passage is begun again from its first frame.
    if spec.context_frames is not None and (not spec.solves or "passage" in spec.frame):
        lag_frames = -(-spec.lag_samples // spec.samples_per_frame) + spec.delay_frames
        assert max(replayed) <= spec.context_frames + lag_frames + max(PIECES) + 3


@quick(QUICK)
def test_a_successor_of_a_successor_is_as_good(family: Callable[[], Codec]) -> None:
    codec = family()
    whole, _ = speak(codec)
    position = 0
    for piece in whole.pieces[:-1]:
        position += len(piece.pcm)
        second, _ = speak(codec, piece, position, sizes=())
        last, *more = second.pieces
        if more:
            behind = position + len(last.pcm)
            rest, _ = speak(codec, last, behind)
            assert near(codec, rest.pcm, whole.pcm[behind:]), (position, last.frame)


def test_conditions_are_heard_and_a_reference_without_them_is_refused() -> None:
    codec = fake(conditioned=True)
    (told, untold) = (codec.open(request("a")) for _ in range(2))
    conditions = codec.conditions(request("a"), DERIVED)
    assert conditions is not None
    codec.tell(told, conditions)
    works = [Work(state, sequence(codec), final=True) for state in (told, untold)]
    one, other = codec.decode(works)
    assert not np.array_equal(one, other)
    with pytest.raises(BadRequest, match="needs the recording of a voice"):
        codec.conditions(request("a"))
    for damaged in ({"codes": DERIVED["speaker"]}, {"speaker": DERIVED["speaker"][0]}):
        with pytest.raises(MalformedMessage):
            codec.conditions(request("a"), damaged)


def test_a_mark_of_another_family_fails_that_stream_alone() -> None:
    heard = Heard()
    engine = Engine(vesper(), slots=2, metrics=Metrics())
    engine.listen(heard)
    engine.open(request("a"), Resume(40 * 1200, 40, b"?"))
    engine.feed("a", sequence(vesper(), vesper().spec.replay_from(40)))
    for _ in range(5):
        turn(engine)
    (event,) = heard
    assert isinstance(event, Failed)
    assert isinstance(event.error, MalformedMessage)
    assert engine.idle
