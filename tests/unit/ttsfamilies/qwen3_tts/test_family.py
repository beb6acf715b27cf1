"""What a request may ask of a checkpoint, and text that is late."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.unit.ttsfamilies.qwen3_tts.tiny import tiny
from ttscommon.process.metrics import Metrics
from ttscommon.wire.errors import BadRequest, NothingToSay, TextTooLong, UnknownVoice
from ttscommon.wire.fields import Array, Derived, rows
from ttscommon.wire.messages import Reference, Sampling, SpeechRequest
from ttscommon.wire.pieces import Text
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS
from ttsfamilies.base.talker.streams import Plan
from ttsfamilies.qwen3_tts.family import Qwen3Tts, load
from ttsfamilies.qwen3_tts.stream import Qwen3Stream

SPEAKER = {"speaker": np.zeros(48, np.float32)}


@pytest.fixture(scope="module")
def custom_voice(custom: Path) -> Qwen3Tts:
    return load("m", custom)


@pytest.fixture(scope="module")
def clone(base: Path) -> Qwen3Tts:
    return load("m", base)


def asked(voice: str = "vivian", text: str = "Hello", **more: Any) -> SpeechRequest:
    return SpeechRequest("r", "m", voice, text, **more)


def test_its_speakers_are_listed_by_language_and_gender(custom_voice: Qwen3Tts) -> None:
    voices = {voice.id: voice for voice in custom_voice.spec.voices}
    sohee, uncle = voices["sohee"], voices["uncle_fu"]
    assert (sohee.native, sohee.gender) == ("ko", "female")
    assert (uncle.name, uncle.native, uncle.gender) == ("Uncle Fu", "zh", "male")
    assert set(sohee.spoken) == set(uncle.spoken) > {"en", "ko", "zh"}
    # A text without a language is read in its own, not in the speaker's.
    assert {voice.language for voice in voices.values()} == {"mul"}


def test_a_language_may_have_a_region(custom_voice: Qwen3Tts) -> None:
    prompts = [custom_voice.prepare(asked(language=tag)) for tag in ("en", "en-GB", "english")]
    assert len({prompt.asked.language for prompt in prompts}) == 1


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        (asked(language="klingon"), "language"),
        (asked(task_type="VoiceDesign"), "task_type"),
        (asked(reference=Reference("0" * 64)), "ref_audio"),
        (asked("nobody"), "voice"),
    ],
)
def test_what_a_checkpoint_cannot_do_is_refused_by_name(
    custom_voice: Qwen3Tts, request_: SpeechRequest, param: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        custom_voice.prepare(request_)
    assert refused.value.param == param
    assert isinstance(refused.value, UnknownVoice) == (param == "voice")


def test_the_small_models_take_no_instructions() -> None:
    with pytest.raises(BadRequest, match="no instructions"):
        tiny().prepare(asked("slt", instructions="Whisper."))


def test_a_clone_needs_a_recording_and_in_context_what_is_said_in_it(clone: Qwen3Tts) -> None:
    with pytest.raises(BadRequest, match="ref_audio"):
        clone.prepare(asked(""))
    with pytest.raises(BadRequest, match="ref_text"):
        clone.prepare(asked("", reference=Reference("0" * 64)), Derived(SPEAKER))
    clone.prepare(asked("", reference=Reference("0" * 64, "", True)), Derived(SPEAKER))


def test_a_text_beyond_what_the_model_can_speak_is_refused() -> None:
    prepared = tiny().prepare(asked("slt"))
    with pytest.raises(TextTooLong, match="90 tokens"):
        list(prepared.read([Text("word " * 200)], final=True))


def test_a_text_without_a_word_is_refused_when_it_ends() -> None:
    prepared = tiny().prepare(asked("slt"))
    assert list(prepared.read([Text("... ")], final=False)) is not None
    with pytest.raises(NothingToSay):
        list(prepared.read([], final=True))


def stream_of(family: Qwen3Tts, text: str, *, final: bool = False) -> Qwen3Stream:
    prepared = family.prepare(asked("slt", text_final=final))
    stream = family.open(prepared)
    stream.feed(list(prepared.read([Text(text)], final=final)), final=final)
    return stream


def made(stream: Qwen3Stream, *, padded: int = 0) -> None:
    frame: dict[str, Array] = {
        "codes": np.ones((1, 4), np.int16),
        "padded": np.array([padded], np.uint8),
    }
    stream.accept(0, frame, ended=False)


def test_late_text_is_waited_for() -> None:
    stream = stream_of(tiny(), "one two")
    while stream.plan(0) is not None:
        made(stream)
    tokens = stream.frames
    assert tokens > 1
    assert stream.plan(0, dry=True) is None
    stream.feed((), final=True)
    assert stream.plan(0) == Plan(rows(stream._prompt or {}) + tokens - 1, 1, decode=True)


def test_late_text_may_be_padded_when_the_listener_would_run_dry_and_the_log_says_so() -> None:
    family = tiny(pads=True)
    stream = stream_of(family, "one two")
    while stream.plan(0) is not None:
        made(stream)
    assert stream.plan(0, dry=True) is not None
    made(stream, padded=1)
    taken = stream.take(stream.frames).frames
    assert taken["padded"].tolist() == [0] * (stream.frames - 1) + [1]
    successor = stream_of(family, "one two three", final=True)
    successor.restore(taken)
    plan = successor.plan(0)
    assert plan is not None
    last = successor.inputs(plan)["text"][-stream.frames :]
    pad = family._net.config.tts_pad_token_id
    assert [text == pad for text in last] == [False] * (stream.frames - 2) + [True, False]


def test_max_new_tokens_counts_as_the_official_package_does() -> None:
    engine = Engine(tiny(), slots=1, blocks=64, metrics=Metrics())
    (spoken,) = synthesise(engine, [asked("slt", sampling=Sampling(max_new_tokens=5))])
    assert rows(spoken.arrays) == 4


def test_what_may_not_fit_into_the_cache_is_refused_before_it_speaks() -> None:
    family, request = tiny(streaming=False), asked("slt", "world " * 56)
    list(family.prepare(request).read([Text(request.text)], final=True))
    family.fit(128)
    with pytest.raises(TextTooLong, match="of 128: say less, or ask for fewer max_new_tokens"):
        list(family.prepare(request).read([Text(request.text)], final=True))
    short = replace(request, sampling=Sampling(max_new_tokens=20))
    assert list(family.prepare(short).read([Text(short.text)], final=True))


def test_all_that_is_allowed_fits_into_the_cache() -> None:
    """As many frames as it may make, behind as long a text as it may say."""
    family = tiny(streaming=False)
    family.fit(128)
    words = next(n for n in range(60, 0, -1) if _allowed(family, asked("slt", "world " * n)))
    engine = Engine(family, blocks=128 // BLOCK_POSITIONS, slots=1, metrics=Metrics())
    (spoken,) = synthesise(engine, [asked("slt", "world " * words)])
    assert rows(spoken.arrays) > 0


def _allowed(family: Qwen3Tts, request: SpeechRequest) -> bool:
    try:
        return bool(list(family.prepare(request).read([Text(request.text)], final=True)))
    except TextTooLong:
        return False
