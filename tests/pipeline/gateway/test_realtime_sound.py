"""What the user of a Realtime session says: turns, interruptions, commits."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from tests.realtime import TEXT, Client, Held, opened


def spoken_sound(seconds: float, level: float) -> str:
    noise = np.random.default_rng(3).standard_normal(int(seconds * 24_000)) * level * 32768
    return base64.b64encode(noise.astype("<i2").tobytes()).decode()


async def append(client: Client, *parts: tuple[float, float]) -> None:
    for seconds, level in parts:
        audio = spoken_sound(seconds, level)
        await client.send("input_audio_buffer.append", audio=audio)


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
