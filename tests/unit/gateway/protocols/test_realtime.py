"""A Realtime session without its socket: settings, items, what is said, and turns of speech."""

import json
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from gateway.audio import AudioFormat
from gateway.audio.encoders import encoder_for
from gateway.errors import ItemExists, Unsupported
from gateway.protocols.realtime import items as bounds
from gateway.protocols.realtime.configuration import (
    TURNS,
    defaults,
    for_response,
    merged,
    spoken_text,
    wanted,
)
from gateway.protocols.realtime.hearing import (
    MOST_S,
    HeardSound,
    SpeechDetector,
    restored,
    samples_of,
)
from gateway.protocols.realtime.items import Conversation, ConversationItem, parsed_item
from gateway.protocols.shared.bounded_json import Json
from ttscommon.wire.errors import BadRequest

RATE = 24_000


def audio(**fields: Any) -> dict[str, Any]:
    return {"type": "realtime", "audio": fields}


def test_updates_are_merged_object_by_object() -> None:
    first = merged(defaults("m"), {"instructions": "Be kind.", "tools": [{"name": "a"}]})
    second = merged(first, audio(output={"voice": "marin"}))
    third = merged(second, audio(input={"transcription": {"model": "w"}}))
    assert third["instructions"] == "Be kind."
    assert third["tools"] == [{"name": "a"}]
    assert third["audio"]["output"]["voice"] == "marin"
    assert third["audio"]["input"]["transcription"] == {"model": "w"}
    assert third["audio"]["input"]["turn_detection"] == TURNS["server_vad"]
    assert first["audio"]["output"]["voice"] == "default"


def test_null_is_a_value_and_another_kind_of_turns_has_other_fields() -> None:
    off = merged(defaults("m"), audio(input={"turn_detection": None}))
    assert off["audio"]["input"]["turn_detection"] is None
    again = merged(off, audio(input={"turn_detection": {"type": "semantic_vad"}}))
    assert again["audio"]["input"]["turn_detection"] == TURNS["semantic_vad"]
    asked = {"turn_detection": {"interrupt_response": False}}
    kept = merged(again, audio(input=asked))["audio"]["input"]["turn_detection"]
    assert kept == {**TURNS["semantic_vad"], "interrupt_response": False}


def test_formats_are_told_as_clients_validate_them() -> None:
    made = merged(defaults("m"), audio(output={"format": {"type": "audio/pcmu"}}))
    assert made["audio"]["output"]["format"] == {"type": "audio/pcmu"}
    back = merged(made, audio(output={"format": {"type": "audio/pcm"}}))
    assert back["audio"]["output"]["format"] == {"type": "audio/pcm", "rate": RATE}


@pytest.mark.parametrize(
    ("update", "param"),
    [
        ("x", "session"),
        ({"type": "transcription"}, "session.type"),
        (audio(output={"format": {"type": "audio/pcm", "rate": 16_000}}), "format.rate"),
        (audio(output={"format": {"type": "audio/mp3"}}), "output.format"),
        (audio(output={"speed": 9}), "speed"),
        (audio(output={"voice": 5}), "voice"),
        (audio(output=5), "audio.output"),
        (audio(input={"turn_detection": {"type": "magic"}}), "turn_detection.type"),
        (audio(input={"turn_detection": {"threshold": 2}}), "threshold"),
        (audio(input={"turn_detection": {"idle_timeout_ms": 10**6}}), "idle_timeout_ms"),
        (
            audio(input={"turn_detection": {"type": "semantic_vad", "idle_timeout_ms": 5000}}),
            "idle_timeout_ms",
        ),
        ({"output_modalities": []}, "output_modalities"),
        ({"max_output_tokens": 5000}, "max_output_tokens"),
        ({"instructions": "x" * (80 << 10)}, "session"),
    ],
)
def test_what_would_be_heard_wrong_is_refused(update: Any, param: str) -> None:
    with pytest.raises((BadRequest, Unsupported)) as refused:
        merged(defaults("m"), update)
    assert str(refused.value.param).endswith(param)


def test_a_response_changes_how_it_sounds_and_nothing_else() -> None:
    settings = defaults("m")
    asked = {"instructions": None, "audio": {"output": {"voice": {"id": "v"}, "format": None}}}
    made = for_response(settings, asked)
    assert made["audio"]["output"]["voice"] == {"id": "v"}
    assert made["audio"]["output"]["format"] == {"type": "audio/pcm", "rate": RATE}
    assert made["audio"]["input"] == settings["audio"]["input"]


def message(text: str, **fields: Any) -> ConversationItem:
    content = [{"type": "input_text", "text": text}]
    return parsed_item({"type": "message", "role": "user", "content": content, **fields})


def test_items_stand_where_their_client_puts_them() -> None:
    conversation = Conversation()
    for name, after in (("a", None), ("b", "a"), ("c", "root"), ("d", "a"), ("e", "nowhere")):
        conversation.add(message(name, id=name), after)
    assert [item.id for item in conversation] == ["c", "a", "d", "b", "e"]
    assert conversation.before(conversation.items[0]) is None
    with pytest.raises(ItemExists):
        conversation.add(message("again", id="a"))


def test_the_oldest_items_go_when_there_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_ITEMS", 3)
    monkeypatch.setattr(bounds, "MOST_BYTES", 2000)
    conversation = Conversation()
    gone = [conversation.add(message("x", id=str(n))) for n in range(5)]
    assert gone == [[], [], [], ["0"], ["1"]]
    assert conversation.add(message("y" * 1850, id="big")) == ["2", "3", "4"]
    with pytest.raises(BadRequest):
        message("z" * 2000)


def test_recordings_and_images_are_not_carried() -> None:
    parts = [{"type": "input_audio", "audio": "AAAA", "transcript": "hi"}]
    item = parsed_item({"role": "user", "content": parts})
    assert item.shown["content"] == [{"type": "input_audio", "transcript": "hi"}]
    assert item.text == ""


def test_what_was_heard_is_cut_to_the_word() -> None:
    content = [{"type": "output_audio", "transcript": "One, two three."}]
    item = parsed_item({"role": "assistant", "content": content})
    item.duration_s, item.marks = 1.5, [(4, 0.0), (8, 0.5), (15, 1.0)]
    assert item.cut(9.0) == 1.5
    assert item.cut(0.6) == 0.6
    assert item.shown["content"][0]["transcript"] == "One, two"
    assert item.cut(1.2) == 0.6  # what a client says later is larger, and of the same audio
    assert item.cut(0.0) == 0.0
    assert item.shown["content"][0]["transcript"] == ""


def test_without_word_times_a_share_of_the_text_was_heard() -> None:
    content = [{"type": "output_audio", "transcript": "One two three four"}]
    item = parsed_item({"role": "assistant", "content": content})
    item.duration_s = 2.0
    item.cut(1.0)
    assert item.shown["content"][0]["transcript"] == "One two"


def test_an_item_survives_its_record() -> None:
    item = message("hello")
    item.duration_s, item.marks, item.spoken = 1.0, [(5, 0.25)], True
    again = ConversationItem.restored(json.loads(json.dumps(item.stored())))
    assert again == item


def test_the_newest_text_that_was_not_spoken_is_said_once() -> None:
    conversation = Conversation()
    for text in ("first", "second"):
        conversation.add(message(text))
    conversation.add(parsed_item({"type": "function_call_output", "output": "5"}))
    found = wanted(defaults("m"), {}, conversation)
    assert found.text == "second"
    assert found.source is not None
    conversation.speak(found.source)
    assert wanted(defaults("m"), None, conversation).text == ""


def test_an_item_that_is_made_again_is_not_said_again() -> None:
    conversation = Conversation()
    conversation.add(message("first", id="a"))
    conversation.speak(conversation.items[0])
    conversation.remove(conversation.items[0])
    conversation.add(message("first, changed", id="a"))
    assert conversation.newest() is None


def test_input_comes_before_the_conversation() -> None:
    conversation = Conversation()
    conversation.add(message("said", id="known"))
    beside = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "me"}]}
    asked = {"conversation": "none", "input": [beside], "metadata": {"k": "v"}}
    found = wanted(defaults("m"), asked, conversation)
    assert (found.text, found.conversational, found.metadata) == ("me", False, {"k": "v"})
    named = {"input": [{"type": "item_reference", "id": "known"}]}
    assert wanted(defaults("m"), named, conversation).text == "said"
    assert wanted(defaults("m"), {"input": []}, conversation).text == ""


@pytest.mark.parametrize("asked", [{"metadata": 5}, {"metadata": {"k": "v" * 600}}, {"input": 5}])
def test_a_response_that_is_none_is_refused(asked: Any) -> None:
    with pytest.raises(BadRequest):
        wanted(defaults("m"), asked, Conversation())


def packed(messages: Any) -> str:
    """As Pipecat sends several messages."""
    intro = "This is a previously saved conversation. Please treat it as a starting point."
    end = "This is the end of the previously saved conversation. Please continue [politely]."
    return f"{intro}\n\n{json.dumps(messages, indent=2)}\n\n{end}"


def test_of_a_packed_conversation_its_last_words_are_said() -> None:
    turns = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "The bells ring."},
    ]
    assert spoken_text(packed(turns)) == "The bells ring."
    parts = [{"role": "user", "content": [{"type": "text", "text": "In parts."}]}]
    assert spoken_text(packed(parts)) == "In parts."
    assert spoken_text("A previously saved conversation is [not] this.") != ""
    assert spoken_text("Plain text.") == "Plain text."


def tone(seconds: float, level: float, rate: int = RATE) -> Any:
    noise = np.random.default_rng(7).standard_normal(int(seconds * rate))
    return (noise * level * 32768).clip(-32768, 32767).astype(np.int16)


@pytest.mark.parametrize("noise", [0.0, 0.004])
@pytest.mark.parametrize("chunk_s", [0.013, 0.1, 5.0])
def test_a_turn_is_what_is_louder_than_before(noise: float, chunk_s: float) -> None:
    detector = SpeechDetector(RATE, TURNS["server_vad"])
    speech = [tone(0.3, 0.1), tone(0.12, noise), tone(0.3, 0.1)]
    sound = np.concatenate([tone(4.0, noise), *speech, tone(1.0, noise)])
    step = int(chunk_s * RATE)
    edges = [
        edge
        for start in range(0, len(sound), step)
        for edge in detector.feed(sound[start : start + step])
    ]
    assert [edge.begins for edge in edges] == [True, False]
    assert edges[0].at_s == pytest.approx(4.0 - 0.3, abs=0.05)
    assert edges[1].at_s == pytest.approx(4.72 + 0.5, abs=0.05)


def test_a_click_is_no_turn_and_a_hum_is_not_for_ever() -> None:
    detector = SpeechDetector(RATE, TURNS["semantic_vad"])
    click = np.concatenate([tone(1.0, 0.0), tone(0.04, 0.5), tone(1.0, 0.0)])
    assert list(detector.feed(click)) == []
    assert [edge.begins for edge in detector.feed(tone(20.0, 0.02))] == [True, False]


@pytest.mark.parametrize("codec", ["mulaw", "alaw"])
def test_telephone_sound_is_expanded(codec: Any) -> None:
    ramp = np.arange(-32000, 32000, 250).astype(np.int16)
    audio_format = AudioFormat(codec)
    data = encoder_for(audio_format, 8000).feed(ramp)
    made = samples_of(data, audio_format).astype(int)
    assert np.all(np.abs(made - ramp) <= np.maximum(np.abs(ramp.astype(int)) * 0.04, 20))
    assert len(samples_of(b"\x01\x02\x03", AudioFormat())) == 1


def test_sound_that_waits_is_bounded() -> None:
    sound = HeardSound(100, kept=True)
    for number in range(80):
        sound.add(np.full(100, number, np.int16))
    assert MOST_S <= sound.seconds <= MOST_S + 5
    assert sound.total_s == 80
    sound.begin_at(78.5)
    assert sound.take().tolist() == [78] * 50 + [79] * 100
    assert sound.seconds == 0


def put_back(message: dict[str, Any]) -> dict[str, Any]:
    """Recordings into a message from which they were left out."""
    left_out = SimpleNamespace(restore=lambda name: f"the sound of {name}")
    return restored(message, cast("Json", left_out))


def test_recordings_of_a_message_its_item_and_its_response_are_put_back() -> None:
    def item() -> dict[str, Any]:
        return {"content": [{"type": "input_audio", "audio": "a"}]}

    found = put_back({"audio": "b", "item": item(), "response": {"input": [item()]}})
    assert found["audio"] == "the sound of b"
    assert found["item"]["content"][0]["audio"] == "the sound of a"
    assert found["response"]["input"][0]["content"][0]["audio"] == "the sound of a"


@pytest.mark.parametrize("wrong", [5, "x", None, [5], {"content": 5}, {"content": [5, None]}])
def test_what_is_no_item_is_left_for_the_parser_to_refuse(wrong: object) -> None:
    message = {"item": wrong, "response": {"input": [wrong]}}
    assert put_back(message) == {"item": wrong, "response": {"input": [wrong]}}
    assert put_back({"item": {}, "response": wrong}) == {"item": {}, "response": wrong}
