"""Wyoming, as Home Assistant speaks it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import Unavailable
from gateway.keys import KeyRing, KeysError
from gateway.protocols.wyoming import WyomingServer, event
from gateway.service import wyoming

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


async def test_a_language_is_spoken_by_a_voice_of_it(client: Client, stand: Any) -> None:
    client.say("synthesize", text="Good morning.", voice={"language": "en-GB"})
    while (await client.hear())[0] != "audio-stop":
        pass
    assert stand.stage.jobs[-1].request.language == "en-GB"


async def test_it_listens_once_a_model_can_speak(stand: Any) -> None:
    """Home Assistant asks for voices when it connects, and tries again after a refusal alone."""
    catalogue = stand.gateway.context.catalogue
    catalogue.can_speak.clear()
    async with WyomingServer(stand.gateway.context, "127.0.0.1", 0) as server:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", server.port)
        await catalogue.refresh()
        async with asyncio.timeout(10):
            client = await connected(server.port)
        client.say("describe")
        _, data, _ = await client.hear()
        client.close()
    assert [program["name"] for program in data["tts"]] == ["vesper"]


async def connected(port: int) -> Client:
    while True:
        try:
            return Client(*await asyncio.open_connection("127.0.0.1", port))
        except ConnectionRefusedError:
            await asyncio.sleep(0)


async def test_describe_is_no_empty_list_when_the_last_model_is_gone(
    client: Client, stand: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none() -> dict[str, Any]:
        return {}

    monkeypatch.setattr(stand.gateway.context.catalogue, "models", none)
    client.say("describe")
    assert await client.at_end()


async def test_a_refused_stream_ends_and_its_text_is_not_spoken(
    client: Client, stand: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(*_: Any, **__: Any) -> Any:
        raise Unavailable("no talker is running: nothing can be spoken yet")

    with monkeypatch.context() as patched:
        patched.setattr(stand.gateway.context.catalogue, "resolve", none)
        client.say("synthesize-start")
        events = await client.until("synthesize-stopped")
    client.say("synthesize-chunk", text=TEXT)
    client.say("synthesize", text=TEXT)
    client.say("synthesize-stop")
    client.say("ping", text="over")
    assert [kind for kind, _, _ in events] == [
        "error", "audio-start", "audio-stop", "synthesize-stopped",
    ]  # fmt: skip
    assert (await client.hear())[0] == "pong"
    assert stand.stage.jobs == []


@pytest.mark.parametrize("settings", [{"idle_timeout_s": 0.3}], indirect=True)
async def test_a_client_that_listens_is_not_idle(client: Client, stand: Any) -> None:
    async def script(performance: Any) -> None:
        await performance.say("first")
        await asyncio.sleep(0.5)
        await performance.say("second")
        await performance.end()

    stand.stage.script = script
    client.say("synthesize", text=TEXT)
    assert seconds(await client.until("audio-stop")) == pytest.approx(0.11)
    assert await client.at_end()


async def test_nonsense_ends_one_connection(stand: Any) -> None:
    async with WyomingServer(stand.gateway.context, "127.0.0.1", 0) as server:
        well = await connected(server.port)
        well.say("run-pipeline", payload=b"xyz", anything=True)  # which it does not know
        for data in (b"\n", b"[]\n", b"{\n", b'{"data_length": -1}\n', b'{"data_length": 1e99}\n'):
            wrong = await connected(server.port)
            wrong.write(data)
            assert await wrong.at_end()
            wrong.close()
        well.say("ping")
        assert (await well.hear())[0] == "pong"
        well.close()


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


KEYS = f'[keys.home]\nsha256 = "{"a" * 64}"\nstreams = 5\n'


@pytest.mark.parametrize("settings", [{"keys": KEYS, "wyoming_tenant": "home"}], indirect=True)
async def test_with_keys_its_clients_speak_as_the_tenant_they_are_given(
    stand: Any, client: Client
) -> None:
    client.say("synthesize", text=TEXT)
    events = await client.until("audio-stop")
    assert "error" not in {kind for kind, _, _ in events}
    assert any(kind == "audio-chunk" for kind, _, _ in events)


@pytest.mark.parametrize("settings", [{"keys": KEYS, "wyoming_port": 0}], indirect=True)
async def test_with_keys_and_no_tenant_of_its_own_it_is_closed(stand: Any) -> None:
    async with wyoming(stand.gateway, stand.gateway.context.settings) as ports:
        assert ports == {}


@pytest.mark.parametrize("settings", [{"wyoming_port": 0}], indirect=True)
async def test_without_keys_it_is_open(stand: Any) -> None:
    async with wyoming(stand.gateway, stand.gateway.context.settings) as ports:
        assert ports["wyoming"] > 0


def test_its_tenant_is_one_of_the_keys(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(KEYS)
    ring = KeyRing.load(tmp_path / "keys.toml")
    ring.require("home", "ANTIPHON_WYOMING_TENANT")
    with pytest.raises(KeysError, match="ANTIPHON_WYOMING_TENANT"):
        ring.require("away", "ANTIPHON_WYOMING_TENANT")
