"""Turns of a conversation on their way into a request: checked, stored, named by their place."""

from __future__ import annotations

import base64

import pytest

from gateway.requests.options import TurnOptions
from gateway.requests.quota import ByteQuota
from gateway.requests.turns import DialogueTurns
from gateway.requests.voices import NewVoice, VoiceStore
from tests.unit.ttscommon.sound.test_recordings import wav
from ttscommon.bus import Bus
from ttscommon.wire import subjects
from ttscommon.wire.errors import BadRequest, TextTooLong, UnknownVoice
from ttscommon.wire.messages import MAX_TEXT_CHARS

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
