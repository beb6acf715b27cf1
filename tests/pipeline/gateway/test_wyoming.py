"""Wyoming, as Home Assistant speaks it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.protocols.wyoming import WyomingServer, event

TEXT = "The tide is in."

Event = tuple[str, dict[str, Any], bytes]


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, kind: str, payload: bytes = b"", **data: Any) -> None:
        self._writer.write(event(kind, data, payload))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def hear(self) -> Event:
        async with asyncio.timeout(10):
            head = json.loads(await self._reader.readline())
            data = json.loads(await self._reader.readexactly(head["data_length"]))
            payload = await self._reader.readexactly(head.get("payload_length", 0))
        return head["type"], data, payload

    async def until(self, kind: str) -> list[Event]:
        events = [await self.hear()]
        while events[-1][0] != kind:
            events.append(await self.hear())
        return events

    async def at_end(self) -> bool:
        async with asyncio.timeout(10):
            await self._reader.read()
        return self._reader.at_eof()

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
async def client(stand: Any) -> AsyncIterator[Client]:
    async with WyomingServer(stand.gateway.context, "127.0.0.1", 0) as server:
        made = Client(*await asyncio.open_connection("127.0.0.1", server.port))
        yield made
        made.close()


def seconds(events: list[Event]) -> float:
    return sum(len(payload) for _, _, payload in events) / 2 / 16_000


async def test_describe_names_programs_and_voices(client: Client) -> None:
    client.say("describe")
    kind, data, _ = await client.hear()
    assert kind == "info"
    (program,) = data["tts"]
    assert program["supports_synthesize_streaming"] is True
    assert [voice["name"] for voice in program["voices"]] == ["slt", "awb", "vesper", "vesper-low"]
    assert all(voice["languages"] for voice in program["voices"])
    assert data["asr"] == []


async def test_a_whole_text(client: Client, stand: Any) -> None:
    client.say("synthesize", text=TEXT, voice={"name": "awb"})
    events = await client.until("audio-stop")
    assert events[0][:2] == ("audio-start", {"rate": 16_000, "width": 2, "channels": 1})
    assert seconds(events) == pytest.approx(len(TEXT) * 0.01)
    assert stand.stage.jobs[0].request.voice == "awb"


async def test_a_streamed_text_is_not_spoken_twice(client: Client, stand: Any) -> None:
    client.say("synthesize-start", voice={"language": "en"})
    for word in TEXT.split(" "):
        client.say("synthesize-chunk", text=f"{word} ")
    client.say("synthesize", text=TEXT)
    client.say("synthesize-stop")
    events = await client.until("synthesize-stopped")
    assert [kind for kind, _, _ in events].count("audio-stop") == 1
    assert len(stand.stage.jobs) == 1
    assert seconds(events) == pytest.approx(len(TEXT) * 0.01, abs=0.011)


async def test_nothing_to_say_is_a_start_and_a_stop(client: Client) -> None:
    client.say("synthesize", text="...")
    events = await client.until("audio-stop")
    assert [kind for kind, _, _ in events] == ["audio-start", "audio-stop"]


async def test_texts_are_spoken_in_order_and_unknown_events_ignored(client: Client) -> None:
    client.say("run-pipeline", payload=b"xyz", anything=True)
    client.say("synthesize", text="One, two.")
    client.say("synthesize", text="Three.")
    first = await client.until("audio-stop")
    second = await client.until("audio-stop")
    assert (seconds(first), seconds(second)) == pytest.approx((0.09, 0.06))


@pytest.mark.parametrize(
    "data", [b"\n", b"[]\n", b"{\n", b'{"data_length": -1}\n', b'{"data_length": 1e99}\n']
)
async def test_nonsense_ends_one_connection(client: Client, data: bytes) -> None:
    client.write(data)
    assert await client.at_end()


async def test_who_leaves_is_not_spoken_to_any_more(client: Client, stand: Any) -> None:
    async def script(performance: Any) -> None:
        await performance.say("first")
        await asyncio.Event().wait()

    stand.stage.script = script
    for text in ("One.", "Two.", "Three."):
        client.say("synthesize", text=text)
    while (await client.hear())[0] != "audio-chunk":
        continue
    client.close()
    async with asyncio.timeout(10):
        await stand.stage.cancelled_event(stand.stage.jobs[0].request_id).wait()
        await stand.gateway.context.services.admission.idle.wait()
    assert len(stand.stage.jobs) == 1
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("utterance")]
