"""What the user of a Realtime session says: turns, interruptions, commits."""

import asyncio
import base64
from typing import Any

import pytest

from tests.realtime import TEXT, Client, Held, append, opened, spoken_sound, transcript
from ttscommon.wire import subjects
from ttscommon.wire.messages import SaidText


async def test_the_user_interrupts_by_speaking(stand: Any) -> None:
    held = stand.stage.script = Held()
    async with opened(stand.url) as client:
        await client.say(TEXT)
        await client.send("response.create")
        await client.until("response.output_audio.delta")
        await append(client, (0.5, 0.0), (0.5, 0.1))
        started = await client.last("input_audio_buffer.speech_started")
        cancelled = (await client.last("response.done"))["response"]
        await append(client, (0.8, 0.0))
        stopped = await client.last("input_audio_buffer.speech_stopped")
        committed = await client.last("input_audio_buffer.committed")
        item = (await client.last("conversation.item.done"))["item"]
        held.go.set()
        await client.send("response.create")
        nothing = (await client.last("response.done"))["response"]
    assert cancelled["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert started["audio_start_ms"] == pytest.approx(200, abs=60)
    assert stopped["audio_end_ms"] == pytest.approx(1500, abs=60)
    assert committed["previous_item_id"] == cancelled["output"][0]["id"]
    assert {started["item_id"], stopped["item_id"], committed["item_id"]} == {item["id"]}
    assert item["content"] == [{"type": "input_audio", "transcript": None}]
    assert nothing["output"] == []


@pytest.mark.slow
async def test_a_client_that_finds_turns_itself_commits_them(stand: Any) -> None:
    async with opened(stand.url) as client:
        await client.configure(audio={"input": {"turn_detection": None}})
        await client.send("input_audio_buffer.commit")
        empty = (await client.last("error"))["error"]
        await append(client, (0.3, 0.1))
        await client.send("input_audio_buffer.clear")
        await client.send("input_audio_buffer.commit")
        assert (await client.event())["type"] == "input_audio_buffer.cleared"
        assert (await client.event())["error"]["code"] == empty["code"]
        await append(client, (20.0, 0.1))  # laid aside while it is parsed
        await client.send("input_audio_buffer.commit")
        kinds = [event["type"] for event in await client.until("conversation.item.done")]
        await client.send("input_audio_buffer.append", audio="no base64!")
        wrong = (await client.last("error"))["error"]
    assert empty["code"] == "input_audio_buffer_commit_empty"
    assert kinds == [
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    assert wrong["param"] == "audio"


async def answer(performance: Any) -> None:
    await performance.say("It is", said=(SaidText(0, "It is", 0.0),))
    await performance.say(" coming in.", said=(SaidText(5, " coming in.", 0.05),))
    await performance.end()


async def test_a_model_that_hears_answers_a_spoken_turn(hearing: Any) -> None:
    hearing.stage.script = answer
    async with opened(hearing.url) as client:
        await client.configure(instructions="Be brief.")
        await client.say("How high is it?")
        await client.send("response.create", response={"max_output_tokens": 60})
        first = await client.until("response.done")
        await append(client, (0.5, 0.0), (0.5, 0.1), (0.8, 0.0))
        spoken = await client.until("response.done")
        await client.send("response.create")
        nothing = (await client.last("response.done"))["response"]
    written, heard = (job.request for job in hearing.stage.jobs)
    assert (written.text, written.turns, written.instructions) == (
        *("How high is it?", (), "Be brief."),
    )
    assert (written.sampling.max_new_tokens, heard.sampling.max_new_tokens) == (60, None)
    assert heard.text == ""
    said = [(turn.speaker, turn.text) for turn in heard.turns]
    assert said == [(0, "How high is it?"), (1, "It is coming in."), (0, "")]
    recording = await hearing.stage.bus.objects.get(
        subjects.PASSING_RECORDINGS, heard.turns[2].sound.audio
    )
    assert len(recording) == pytest.approx(44 + 2 * 24_000 * 1.3, rel=0.1)
    for events in (first, spoken):
        assert events[-1]["response"]["status"] == "completed"
        assert transcript(events) == "It is coming in."
    assert nothing["output"] == []


async def test_sound_in_an_item_is_heard(hearing: Any) -> None:
    hearing.stage.script = answer
    part = {"type": "input_audio", "audio": spoken_sound(0.7, 0.1)}
    said = {"type": "input_audio", "transcript": "How high is it?"}
    async with opened(hearing.url) as client:
        for content in ([said], [part]):
            item = {"type": "message", "role": "user", "content": content}
            await client.send("conversation.item.create", item=item)
        await client.until("conversation.item.done")
        added = (await client.last("conversation.item.done"))["item"]
        await client.send("response.create")
        spoken = await client.until("response.done")
        beside = {"conversation": "none", "input": [{"role": "user", "content": [part]}]}
        await client.send("response.create", response=beside)
        again = await client.until("response.done")
        part["audio"] = spoken_sound(0.7, 0.0)
        await client.send("conversation.item.create", item={"role": "user", "content": [part]})
        silent = (await client.last("error"))["error"]
    assert added["content"] == [{"type": "input_audio"}]
    first, second = (job.request for job in hearing.stage.jobs)
    assert [turn.text for turn in first.turns] == ["How high is it?", ""]
    assert first.turns[1].sound == second.turns[-1].sound
    recording = await hearing.stage.bus.objects.get(
        subjects.PASSING_RECORDINGS, first.turns[1].sound.audio
    )
    assert len(recording) == 44 + 2 * int(0.7 * 24_000)
    assert transcript(spoken) == transcript(again) == "It is coming in."
    assert silent["param"] == "item.content"


async def test_sound_in_an_item_is_refused_where_no_model_hears_it(stand: Any) -> None:
    part = {"type": "input_audio", "audio": spoken_sound(0.7, 0.1)}
    async with opened(stand.url) as client:
        for known in ({}, {"transcript": "Hello."}):
            item = {"role": "user", "content": [{**part, **known}]}
            await client.send("conversation.item.create", item=item)
        refused = (await client.event())["error"]
        kept = (await client.last("conversation.item.done"))["item"]
        await client.send("response.create", response={"input": [{"content": [part]}]})
        again = (await client.last("error"))["error"]
        spoken = await client.ask(TEXT)
    assert (refused["code"], refused["param"]) == ("unsupported", "item.content")
    assert (again["code"], again["param"]) == ("unsupported", "item.content")
    assert kept["content"] == [{"type": "input_audio", "transcript": "Hello."}]
    assert spoken[-1]["response"]["status"] == "completed"


async def test_a_user_who_says_nothing_is_a_turn_after_a_while(hearing: Any) -> None:
    hearing.stage.script = answer
    async with opened(hearing.url) as client:
        turns = {"type": "server_vad", "idle_timeout_ms": 400}
        told = await client.configure(audio={"input": {"turn_detection": turns}})
        hum = asyncio.create_task(_hum(client))
        await client.ask("How high is it?")
        triggered = await client.last("input_audio_buffer.timeout_triggered")
        committed = await client.last("input_audio_buffer.committed")
        spoken = await client.until("response.done")
        hum.cancel()
    assert told["audio"]["input"]["turn_detection"]["idle_timeout_ms"] == 400
    assert triggered["item_id"] == committed["item_id"]
    assert triggered["audio_start_ms"] < triggered["audio_end_ms"]
    assert spoken[-1]["response"]["status"] == "completed"
    assert [turn.text for turn in hearing.stage.jobs[1].request.turns][-1] == ""


async def _hum(client: Client) -> None:
    """Of a room, without end; faster than it is heard."""
    while True:
        await append(client, (0.2, 0.001))
        await asyncio.sleep(0.01)


async def test_an_append_has_as_much_as_openai_takes(stand: Any) -> None:
    async with opened(stand.url, max_size=None) as client:
        await client.configure(audio={"input": {"turn_detection": None}})
        long = base64.b64encode(bytes(6 << 20)).decode()
        await client.send("input_audio_buffer.append", audio=long)
        await client.send("input_audio_buffer.commit")
        await client.until("conversation.item.done")
        over = base64.b64encode(bytes((15 << 20) + 3)).decode()
        await client.send("input_audio_buffer.append", audio=over)
        refused = (await client.event())["error"]
    assert refused["code"] == "message_too_big"
    assert "15 MiB" in refused["message"]
