"""OpenAI's Realtime socket, as its clients use it: items in, responses out."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.realtime import TEXT, Held, opened, sound, transcript, words

ORDER = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
    "response.output_audio_transcript.delta",
    "response.output_audio.delta",
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
]


async def test_a_response_is_told_in_the_order_that_clients_need(stand: Any) -> None:
    stand.stage.script = words
    async with opened(stand.url) as client:
        await client.say(TEXT, id="mine")
        added, done = await client.event(), await client.event()
        await client.send("response.create", response={"metadata": {"client_event_id": "7"}})
        events = await client.until("response.done")
    assert [event["type"] for event in (added, done)] == [
        "conversation.item.added",
        "conversation.item.done",
    ]
    assert (added["item"]["id"], added["previous_item_id"]) == ("mine", None)
    assert list(dict.fromkeys(event["type"] for event in events)) == ORDER
    response = events[-1]["response"]
    assert response["status"] == "completed"
    assert response["metadata"] == {"client_event_id": "7"}
    (item,) = response["output"]
    assert item["content"] == [{"type": "output_audio", "transcript": TEXT}]
    assert (item["role"], item["status"]) == ("assistant", "completed")
    deltas = [e for e in events if "content_index" in e]
    assert {(e["response_id"], e["item_id"]) for e in deltas} == {(response["id"], item["id"])}
    times = [e["start_time"] for e in events if "start_time" in e]
    assert times == [0.0, 0.25, 0.5]
    assert transcript(events) == TEXT
    assert len(sound(events)) == 0.75 * 24_000
    assert response["usage"]["input_tokens"] == len(TEXT)


@pytest.mark.slow
async def test_a_model_without_word_times_tells_its_text_once(stand: Any) -> None:
    async def mute(performance: Any) -> None:
        for _ in range(20):
            await performance.say("0123456789", word=False)
        await performance.end()

    stand.stage.script = mute
    async with opened(stand.url) as client:
        events = await client.ask(TEXT)
    kinds = [event["type"] for event in events]
    assert transcript(events) == TEXT
    told = kinds.index("response.output_audio_transcript.delta")
    assert kinds[told:].count("response.output_audio.delta") > 5


async def test_a_served_name_in_the_address_wins_over_an_alias_in_an_update(stand: Any) -> None:
    """OpenAI's Agents SDK sends a model of OpenAI's with every update."""
    async with opened(stand.url, model="vesper") as client:
        assert (await client.configure(model="gpt-realtime-2.1"))["model"] == "vesper"
    async with opened(stand.url) as client:
        assert (await client.configure(model="gpt-realtime-2.1"))["model"] == "gpt-realtime-2.1"
        assert (await client.configure(model="vesper"))["model"] == "vesper"


async def test_nothing_new_is_an_empty_response_and_instructions_are_never_said(
    stand: Any,
) -> None:
    async with opened(stand.url) as client:
        await client.configure(instructions="Speak like a pirate.")
        await client.send("response.create", response={"instructions": "Say hello."})
        first = await client.until("response.done")
        await client.ask("Once.")
        await client.send("response.create", response={"instructions": None})
        again = await client.until("response.done")
    for events in (first, again):
        assert [event["type"] for event in events] == ["response.created", "response.done"]
        assert events[-1]["response"]["output"] == []
        assert events[-1]["response"]["status"] == "completed"
        assert events[-1]["response"]["metadata"] is None
    assert [job.request.text for job in stand.stage.jobs] == ["Once."]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["audio/pcmu", "audio/pcma"])
async def test_telephone_formats(stand: Any, talk: Any, kind: str) -> None:
    async with opened(stand.url) as client:
        session = await client.configure(audio={"output": {"format": {"type": kind}}})
        events = await client.ask(TEXT)
    assert session["audio"]["output"]["format"] == {"type": kind}
    assert len(sound(events, "u1")) == pytest.approx(len(talk.sound(TEXT)) / 2, abs=2)


@pytest.mark.slow
async def test_text_alone_needs_no_voice(stand: Any) -> None:
    async with opened(stand.url) as client:
        await client.configure(output_modalities=["text"])
        events = await client.ask(TEXT)
    assert [e["delta"] for e in events if e["type"] == "response.output_text.delta"] == [TEXT]
    assert events[-1]["response"]["output"][0]["content"] == [{"type": "output_text", "text": TEXT}]
    assert stand.stage.jobs == []


@pytest.mark.slow
async def test_a_response_beside_the_conversation_adds_nothing_to_it(stand: Any) -> None:
    beside = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "B"}]}]
    async with opened(stand.url) as client:
        await client.say(TEXT)
        await client.until("conversation.item.done")
        await client.send("response.create", response={"conversation": "none", "input": beside})
        events = await client.until("response.done")
        await client.send("response.create")
        await client.until("response.done")
    assert not any(event["type"].startswith("conversation.") for event in events)
    assert [job.request.text for job in stand.stage.jobs] == ["B", TEXT]


async def test_a_cancelled_response_ends_once_and_frees_the_stage(stand: Any) -> None:
    held = stand.stage.script = Held()
    async with opened(stand.url) as client:
        await client.say(TEXT)
        await client.send("response.create")
        await client.until("response.output_audio.delta")
        await client.send("response.create")
        busy = await client.last("error")
        await client.send("response.cancel")
        events = await client.until("response.done")
        await client.send("response.cancel", event_id="again")
        useless = await client.last("error")
        held.go.set()
        following = await client.ask("Next.")
    assert busy["error"]["code"] == "conversation_already_has_active_response"
    response = events[-1]["response"]
    assert response["status"] == "cancelled"
    assert response["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
    assert response["output"][0]["status"] == "incomplete"
    assert useless["error"]["code"] == "response_cancel_not_active"
    assert useless["error"]["message"].startswith("Cancellation failed")
    assert useless["error"]["event_id"] == "again"
    assert following[-1]["response"]["status"] == "completed"
    kinds = [event["type"] for event in client.events]
    assert kinds.count("response.done") == kinds.count("response.created") == 2
    await stand.stage.freed(stand.stage.jobs[0].request_id)


async def test_a_truncated_item_holds_what_was_heard_to_the_word(stand: Any) -> None:
    stand.stage.script = words
    async with opened(stand.url) as client:
        (item,) = (await client.ask(TEXT))[-1]["response"]["output"]
        told = []
        for end_ms in (9000, 300, 600):
            about = {"item_id": item["id"], "content_index": 0}
            await client.send("conversation.item.truncate", **about, audio_end_ms=end_ms)
            told.append(await client.last("conversation.item.truncated"))
        await client.send("conversation.item.retrieve", item_id=item["id"])
        found = (await client.last("conversation.item.retrieved"))["item"]
        await client.send(
            "conversation.item.truncate", item_id="x", content_index=0, audio_end_ms=5
        )
        unknown = await client.event()
    assert [one["audio_end_ms"] for one in told] == [750, 300, 300]
    assert found["content"][0]["transcript"] == "One, two"
    assert unknown["type"] == "conversation.item.truncated"


async def test_what_is_truncated_or_deleted_is_not_spoken_further(stand: Any) -> None:
    stand.stage.script = Held()
    async with opened(stand.url) as client:
        for kind, more in (("truncate", {"audio_end_ms": 10, "content_index": 0}), ("delete", {})):
            await client.say(TEXT)
            await client.send("response.create")
            item = (await client.last("response.content_part.added"))["item_id"]
            await client.send(f"conversation.item.{kind}", item_id=item, **more)
            events = await client.until(f"conversation.item.{kind}d")
            (done,) = [event for event in events if event["type"] == "response.done"]
            assert done["response"]["status"] == "cancelled"
        await client.send("conversation.item.retrieve", item_id=item, event_id="e")
        error = (await client.last("error"))["error"]
    assert (error["code"], error["event_id"]) == ("item_retrieve_invalid_item_id", "e")


@pytest.mark.slow
async def test_a_failing_response_says_so_and_the_session_goes_on(stand: Any, talk: Any) -> None:
    async def fail(performance: Any) -> None:
        await performance.say("first half", True)
        await performance.end("error", "internal", "out of notes")

    stand.stage.script = fail
    async with opened(stand.url) as client:
        failed = (await client.ask("Fail now."))[-1]["response"]
        stand.stage.script = talk.recite
        too_long = (await client.ask("x" * 20_000))[-1]["response"]
        good = (await client.ask("Next."))[-1]["response"]
    assert (failed["status"], failed["status_details"]["error"]["code"]) == ("failed", "internal")
    assert too_long["status_details"]["error"]["code"] == "text_too_long"
    assert good["status"] == "completed"
    assert not [event for event in client.events if event["type"] == "error"]


async def test_every_event_of_the_document_is_known(stand: Any) -> None:
    page = (Path(__file__).parents[3] / "docs/realtime.md").read_text()
    kinds = re.findall(r"^\| `([a-z_]+(?:\.[a-z_]+)+)` \|", page.split("## Events")[1], re.M)
    assert len(kinds) == 11
    async with opened(stand.url) as client:
        for kind in kinds:
            await client.send(kind)
        await client.send("sing.it")
        events = await client.until("error")
        while "sing.it" not in events[-1]["error"]["message"]:
            assert "unknown event" not in events[-1]["error"]["message"]
            events = await client.until("error")


async def test_messages_that_are_wrong_end_nothing(stand: Any) -> None:
    async with opened(stand.url) as client:
        for frame in ("{", "[]", b"binary", '{"type": "sing"}', '{"type": []}'):
            await client.socket.send(frame)
            assert (await client.event())["type"] == "error"
        await client.say("one", id="same")
        await client.say("two", id="same")
        duplicate = (await client.last("error"))["error"]
        await client.send("output_audio_buffer.clear")
        await client.send("conversation.item.delete", item_id="nothing")
        assert (await client.event())["type"] == "conversation.item.deleted"
        await client.send("response.create")
        await client.until("response.done")
    assert duplicate["code"] == "item_create_duplicate_item_id"
