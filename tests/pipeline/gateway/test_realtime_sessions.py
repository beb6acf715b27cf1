"""Realtime sessions: how they are opened, gone on with by another connection, and ended."""

import contextlib
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.errors import NotFound
from gateway.protocols.realtime import RealtimeSession
from tests.realtime import TEXT, Held, opened, sound, transcript
from tests.waits import until


@pytest.mark.slow
async def test_browsers_bring_their_key_among_subprotocols(stand: Any) -> None:
    offered = ["realtime", "openai-insecure-api-key.secret", "openai-agents-sdk.0.1"]
    async with opened(stand.url, subprotocols=offered) as client:
        assert client.socket.subprotocol == "realtime"


async def test_a_secret_opens_a_session_that_begins_as_it_says(stand: Any) -> None:
    body = {"session": {"type": "realtime", "instructions": "Be brief."}}
    made = (await stand.http.post("/v1/realtime/client_secrets", json=body)).json()
    headers = {"authorization": f"Bearer {made['value']}"}
    async with opened(stand.url, additional_headers=headers) as client:
        assert client.events[0]["session"]["instructions"] == "Be brief."
    assert made["value"].startswith("ek_")
    assert made["session"]["instructions"] == "Be brief."
    refused: httpx.Response = await stand.http.post(
        "/v1/realtime/client_secrets", json={"expires_after": {"seconds": 5}}
    )
    assert refused.status_code == 400


async def test_a_lost_session_goes_on_at_the_sample_that_its_client_has(stand: Any) -> None:
    held = stand.stage.script = Held()
    async with opened(stand.url, "&resumable=true") as client:
        name = client.events[0]["session"]["id"]
        await client.say("Before.", id="before")
        await client.say(TEXT, id="mine")
        await client.send("response.create", response={"metadata": {"k": "v"}})
        while len(sound(client.events)) < 0.45 * 24_000:
            await client.event()
        heard = sound(client.events)
        await stored(stand, name, running=True)
        client.socket.transport.abort()
    await gone(stand)
    async with opened(stand.url, f"&session={name}&from_sample={len(heard)}") as client:
        await client.until("response.output_item.added")
        held.go.set()
        events = await client.until("response.done")
        done = events[-1]["response"]
        assert done["status"] == "completed", done
        await client.send("conversation.item.truncate", item_id=done["output"][0]["id"],
                          content_index=0, audio_end_ms=300)  # fmt: skip
        await client.send("conversation.item.retrieve", item_id=done["output"][0]["id"])
        item = (await client.last("conversation.item.retrieved"))["item"]
    assert client.events[0]["session"]["id"] == name
    done_items = [e for e in client.events if e["type"] == "conversation.item.done"]
    assert [e["item"]["id"] for e in done_items][:2] == ["before", "mine"]
    assert (done["status"], done["metadata"]) == ("completed", {"k": "v"})
    assert transcript(client.events) == TEXT
    assert len(heard) + len(sound(client.events)) == 0.75 * 24_000
    assert len(stand.stage.jobs) == 1
    assert item["content"][0]["transcript"] == "One, two"


async def gone(stand: Any) -> None:
    """Until the gateway has noticed."""
    await until(lambda: not stand.gateway.sockets.sessions)


async def stored(stand: Any, name: str, *, running: bool = False) -> None:
    """Until the broker has the session, and its response."""

    async def found() -> bool:
        with contextlib.suppress(NotFound):
            session, _ = await stand.gateway.context.sessions.get("", name)
            return session.running is not None or not running
        return False

    await until(found)


@pytest.mark.slow
async def test_a_session_that_ended_well_or_never_was_is_not_found(stand: Any) -> None:
    async with opened(stand.url) as client:
        name = client.events[0]["session"]["id"]
        await client.say("Hello.")
        await client.until("conversation.item.done")
    await gone(stand)
    for unknown in (name, "sess_none"):
        with pytest.raises(InvalidStatus) as refused:
            async with opened(stand.url, f"&session={unknown}"):
                pass
        assert refused.value.response.status_code == 404


@pytest.mark.slow
async def test_a_session_is_heard_over_one_connection(stand: Any) -> None:
    async with opened(stand.url) as client:
        name = client.events[0]["session"]["id"]
        await client.say("One.")
        await client.until("conversation.item.done")
        await stored(stand, name)
        async with opened(stand.url, f"&session={name}") as second:
            await second.until("conversation.item.done")
            await second.say("Two.")
            await second.until("conversation.item.done")
            with contextlib.suppress(ConnectionClosed):
                while True:
                    with contextlib.suppress(ConnectionClosed):  # what was told is still to be read
                        await client.say("Three.")
                    await client.event()
            await second.say("Four.")
            await second.until("conversation.item.done")
    assert client.events[-1]["error"]["code"] == "heard_elsewhere"


async def test_a_gateway_that_ends_tells_what_becomes_of_a_response(stand: Any) -> None:
    stand.stage.script = Held()
    async with opened(stand.url) as client:
        await client.say(TEXT)
        await client.send("response.create")
        await client.until("response.output_audio.delta")
        await stand.gateway.drain(0.0)
        done = (await client.last("response.done"))["response"]
        with pytest.raises(ConnectionClosed):
            await client.event()
    assert (done["status"], done["status_details"]["error"]["code"]) == ("failed", "draining")
    assert client.socket.close_code == 1012


@pytest.mark.slow
async def test_a_session_ends_when_it_is_too_old(
    stand: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RealtimeSession, "longest_s", 0.2)
    async with opened(stand.url) as client:
        expired = (await client.last("error"))["error"]
        with pytest.raises(ConnectionClosed):
            await client.event()
    assert expired["code"] == "session_expired"
    assert client.socket.close_code == 1012
