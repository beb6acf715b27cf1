"""What is asked of a model, held against what it obeys."""

import base64
from typing import Any

import pytest

from gateway.errors import Unsupported
from gateway.protocols.native.messages import SessionConfig
from gateway.protocols.openai.speech import SpeechBody
from gateway.requests import RequestOptions
from gateway.requests.kept import NewVoice, VoiceStore
from gateway.requests.options import DialogueTurns, TurnOptions, recording
from gateway.requests.tenants import ByteQuota
from tests.unit.ttscommon.sound.test_recordings import wav
from ttscommon.bus import Bus
from ttscommon.sound.recordings import BadRecording
from ttscommon.wire import subjects
from ttscommon.wire.errors import BadRequest, TextTooLong, UnknownVoice
from ttscommon.wire.messages import MAX_TEXT_CHARS, Sampling
from ttscommon.wire.replicas import Model, Voice

VOICE = Voice("slt", "Slt", "en-US")
PLAIN = Model("plain", "f", 16_000, 25.0, (VOICE,), accepts=("temperature",))
CLONE = Model("clone", "f", 24_000, 12.5, accepts=("ref_audio", "ref_text", "language"))


@pytest.mark.parametrize("name", ["instructions", "language", "non_streaming_mode"])
def test_a_way_of_speaking_is_dropped_for_clients_of_others_and_refused_on_the_socket(
    name: str,
) -> None:
    asked: dict[str, Any] = {name: True if name == "non_streaming_mode" else "german"}
    assert RequestOptions(**asked).obeyed(PLAIN, VOICE, lenient=True) == (RequestOptions(), [name])
    with pytest.raises(Unsupported) as refused:
        RequestOptions(**asked).obeyed(PLAIN, VOICE, lenient=False)
    assert refused.value.param == name


@pytest.mark.parametrize(
    "asked",
    [
        {"ref_audio": "x"},
        {"task_type": "Base"},
        {"x_vector_only_mode": True},
        {"ref_text": "x"},
        {"sampling": Sampling(top_p=0.5)},
    ],
)
def test_what_makes_another_speaker_or_is_unknown_is_refused_everywhere(
    asked: dict[str, Any],
) -> None:
    for lenient in (True, False):
        with pytest.raises(Unsupported):
            RequestOptions(**asked).obeyed(PLAIN, VOICE, lenient=lenient)


def test_the_voices_own_language_is_no_wish() -> None:
    for language in ("en", "en-US", "EN-gb"):
        options, dropped = RequestOptions(language=language).obeyed(PLAIN, VOICE, lenient=False)
        assert (options.language, dropped) == (language, [])


def test_both_shapes_of_a_request_say_the_same() -> None:
    fields = {
        "language": "german",
        "instructions": "Whisper.",
        "task_type": "Base",
        "non_streaming_mode": True,
        "ref_audio": "eA==",
        "ref_text": "x",
        "x_vector_only_mode": False,
        "temperature": 0,
        "subtalker_top_k": 5,
    }
    options = SpeechBody.model_validate({"input": "x", **fields}).options
    assert options == SessionConfig.model_validate({"type": "session.config", **fields}).options
    assert options.sampling == Sampling(temperature=0.0, subtalker_top_k=5)
    assert set(options.named()) == set(fields) - {"x_vector_only_mode"}


async def test_recordings_travel_as_base64_or_as_data_urls() -> None:
    text = base64.b64encode(b"sound").decode()
    for given in (text, f"data:audio/wav;base64,{text}"):
        assert await recording(given) == b"sound"


@pytest.mark.parametrize(
    "given", ["https://example.com/a.wav", "file:///etc/passwd", "data:audio/wav,x", "*", "A" * 5]
)
async def test_anything_else_is_no_recording(given: str) -> None:
    with pytest.raises(BadRecording):
        await recording(given)


async def test_a_recording_beyond_the_limit_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(BadRecording, match="10 MB"):
        await recording("A" * (15 << 20))


@pytest.mark.parametrize(
    ("model", "asked", "instead"),
    [
        (PLAIN, {"turns": (TurnOptions(text="x"),)}, "use a model whose `accepts`"),
        (CLONE, {"turns": (TurnOptions(text="x"),)}, "send one recording as ref_audio"),
        (PLAIN, {"speaker": 1}, "name a voice"),
    ],
)
def test_turns_that_a_model_cannot_take_are_refused_with_what_to_change(
    model: Model, asked: dict[str, Any], instead: str
) -> None:
    for lenient in (True, False):
        with pytest.raises(Unsupported, match=instead) as refused:
            RequestOptions(**asked).obeyed(model, VOICE, lenient=lenient)
        assert refused.value.param in asked


TONE = wav(1.5)
SOUND = base64.b64encode(TONE).decode()


@pytest.fixture
async def voices(bus: Bus) -> VoiceStore:
    store = VoiceStore(bus, 3, ByteQuota(1 << 20, 3600.0))
    await store.add("acme", NewVoice("anna", wav(2.0), "I agree.", "what Anna said"))
    return store


@pytest.fixture
def turns(voices: VoiceStore) -> DialogueTurns:
    return DialogueTurns(voices, "acme")


async def test_a_turn_sounds_like_its_recording_a_stored_voice_or_nothing(
    turns: DialogueTurns, bus: Bus
) -> None:
    asked = (
        TurnOptions(0, "  Who is\nthere? ", audio=SOUND),
        TurnOptions(1, voice="anna"),
        TurnOptions(0, "Only words."),
    )
    first, second, third = await turns.of(asked)
    assert (first.speaker, first.text) == (0, "Who is there?")
    assert first.sound is not None
    assert await bus.objects.get(subjects.PASSING_RECORDINGS, first.sound.audio) == TONE
    assert (second.speaker, second.text) == (1, "what Anna said")
    assert second.sound is not None
    assert second.sound.kept
    assert (third.text, third.sound) == ("Only words.", None)


@pytest.mark.parametrize(
    ("options", "param", "message"),
    [
        (TurnOptions(audio="eA=="), "turns.1.audio", "the recording is no WAV"),
        (TurnOptions(audio="http://x/y.wav"), "turns.1.audio", "not fetched"),
        (TurnOptions(audio=SOUND, text="x" * 900), "turns.1.text", "can be said in a recording"),
        (TurnOptions(text="..."), "turns.1.text", "nothing to say"),
        (TurnOptions(voice="hal"), "turns.1.voice", "no voice 'hal'"),
    ],
)
async def test_a_turn_that_cannot_be_used_is_named(
    turns: DialogueTurns, options: TurnOptions, param: str, message: str
) -> None:
    with pytest.raises(BadRequest, match=message) as refused:
        await turns.of((TurnOptions(text="fine"), options))
    assert refused.value.param == param


async def test_another_tenants_voice_is_unknown_in_a_turn(voices: VoiceStore) -> None:
    with pytest.raises(UnknownVoice):
        await DialogueTurns(voices, "other").of((TurnOptions(voice="anna"),))


async def test_more_words_than_a_text_may_have_are_refused_before_anything_is_stored(
    turns: DialogueTurns,
) -> None:
    half = "a" * (MAX_TEXT_CHARS // 2 + 1)
    with pytest.raises(TextTooLong, match="leave out the oldest"):
        await turns.of((TurnOptions(text=half), TurnOptions(text=half, audio=SOUND)))
