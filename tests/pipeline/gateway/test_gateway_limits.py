"""What clients may hold open, for how long, and from which pages."""

import asyncio
import contextlib
import json
from itertools import product
from typing import Any, Final

import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from gateway.keys import KeyRing
from gateway.protocols.native import STREAM_PATH
from tests.waits import TIMEOUT_S, until

HEAD: Final = b"POST /v1/audio/speech HTTP/1.1\r\nhost: localhost\r\n"
BODY: Final = HEAD + b"content-type: application/json\r\ncontent-length: 100\r\n\r\n"

TEXT: Final = "abc"
QUICK: Final = {"head_timeout_s": 0.4, "body_timeout_s": 0.4}


async def dripped(writer: asyncio.StreamWriter) -> None:
    """A byte now and then, as slow as a client that wants to stay."""
    with contextlib.suppress(OSError):
        while not writer.is_closing():
            writer.write(b"a")
            await writer.drain()
            await asyncio.sleep(0.05)


async def until_ended(stand: Any, sent: bytes, *, drips: bool) -> None:
    """Send the beginning of a request, and wait for the end of its connection."""
    reader, writer = await stand.opened()
    writer.write(sent)
    dripping = asyncio.create_task(dripped(writer)) if drips else None
    try:
        with contextlib.suppress(ConnectionResetError):
            answer = await reader.read()
            # What is no HTTP any more is told so at once.
            assert answer[:12] in (b"", b"HTTP/1.1 408", b"HTTP/1.1 400")
            assert answer or not sent
    finally:
        if dripping is not None:
            dripping.cancel()
        writer.transport.abort()


@pytest.mark.parametrize("settings", [QUICK], indirect=True)
async def test_a_request_that_does_not_arrive_in_time_ends_its_connection(stand: Any) -> None:
    beginnings = (b"", b"GET / HT", HEAD + b"x: y", BODY, BODY + b'{"input": ')
    async with asyncio.timeout(10), asyncio.TaskGroup() as clients:
        for sent, drips in product(beginnings, (False, True)):
            clients.create_task(until_ended(stand, sent, drips=drips))
    await until(lambda: not stand.http_server.server_state.connections)


@pytest.mark.parametrize("settings", [QUICK], indirect=True)
async def test_a_request_that_was_sent_may_take_its_time(stand: Any, talk: Any) -> None:
    gate = stand.stage.script = talk.gate()
    asked = asyncio.create_task(stand.http.post("/v1/audio/speech", json={"input": "Take it."}))
    await asyncio.sleep(1.5)  # longer than the deadlines, which look twice a second
    assert not asked.done()
    gate.go.set()
    assert (await asked).status_code == 200


@pytest.mark.parametrize("settings", [{"max_connections": 3}], indirect=True)
async def test_more_connections_than_there_may_be_are_refused_at_once(stand: Any) -> None:
    held = [await stand.opened() for _ in range(3)]
    for _, writer in held:
        writer.write(HEAD)
    await until(lambda: len(stand.http_server.server_state.connections) >= 3)
    reader, writer = await stand.opened()
    async with asyncio.timeout(TIMEOUT_S):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"retry-after" in answer
    for _, one in [*held, (reader, writer)]:
        one.transport.abort()


async def test_a_head_has_a_limit(stand: Any) -> None:
    for fields in (b"x: " + b"y" * (70 << 10), b"x: y\r\n" * 200 + b"\r\n"):
        reader, writer = await stand.opened()
        writer.write(b"GET / HTTP/1.1\r\n" + fields)
        async with asyncio.timeout(TIMEOUT_S):
            with contextlib.suppress(ConnectionResetError):
                assert (await reader.read()).startswith(b"HTTP/1.1 431")
        writer.transport.abort()


async def test_pipelined_requests_are_all_answered(stand: Any) -> None:
    reader, writer = await stand.opened()
    writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n" * 300)
    answers = b""
    async with asyncio.timeout(20):
        while answers.count(b"HTTP/1.1 200") < 300:
            answers += await reader.read(1 << 16)
    writer.transport.abort()


async def test_many_messages_in_one_read_are_taken_in_order(stand: Any, talk: Any) -> None:
    async with stand.session(seed=0) as socket:
        for word in range(400):
            await socket.send(json.dumps({"type": "input.text", "text": f"{word} "}))
        await talk.send(socket, "input.done")
        messages = await talk.until(socket, "audio.done")
    assert "error" not in {m["type"] for m in messages}
    expected = talk.sound("".join(f"{word} " for word in range(400)).strip())
    assert np.array_equal(talk.pcm(messages)[: len(expected)], expected)


@pytest.mark.parametrize("settings", [{"host": "127.0.0.1"}], indirect=True)
async def test_foreign_pages_reach_nothing_of_a_local_gateway(stand: Any) -> None:
    foreign = {"origin": "http://evil.example"}
    answer = await stand.http.post("/v1/audio/speech", json={"input": "x"}, headers=foreign)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "foreign_origin")
    form = {"name": (None, "a"), "audio_sample": b"x", "consent": (None, "yes")}
    assert (
        await stand.http.post("/v1/audio/voices", files=form, headers=foreign)
    ).status_code == 403
    rebound = await stand.http.get("/v1/audio/voices", headers={"host": "evil.example:8000"})
    assert (rebound.status_code, rebound.json()["error"]["code"]) == (421, "foreign_host")
    for path in (STREAM_PATH, "/v1/text-to-speech/x/stream-input", "/tts/websocket", "/v1/speak"):
        with pytest.raises(InvalidStatus) as refused:
            async with connect(stand.url.replace("http", "ws") + path, additional_headers=foreign):
                pass
        assert refused.value.response.status_code == 403
    assert stand.stage.jobs == []


async def test_json_says_that_it_is_json(stand: Any) -> None:
    vendors = ("/v1/text-to-speech/x", "/tts/bytes", "/v1/speak")
    body = b'{"input": "Hi", "text": "Hi"}'
    for path in ("/v1/audio/speech", "/v1/audio/voices", *vendors):
        for kind in ("text/plain", "application/x-www-form-urlencoded", None):
            headers = {} if kind is None else {"content-type": kind}
            answer = await stand.http.post(path, content=body, headers=headers)
            assert answer.status_code == 415, (path, kind, answer.text)
    assert stand.stage.jobs == []


@pytest.mark.parametrize("settings", [{"any_content_type": True}], indirect=True)
async def test_a_setting_takes_json_that_says_it_is_text(stand: Any) -> None:
    headers = {"content-type": "text/plain"}
    answer = await stand.http.post("/v1/audio/speech", content=b'{"input": "Hi"}', headers=headers)
    assert answer.status_code == 200


KEYS: Final = (
    '[keys.small]\nsha256 = "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4"\n'
    "sockets = 2\n"
)


@pytest.mark.parametrize("settings", [{"keys": KEYS}], indirect=True)
async def test_a_key_holds_as_many_sockets_as_it_may(stand: Any) -> None:
    url = stand.url.replace("http", "ws") + "/tts/websocket?api_key=hi"
    async with connect(url), connect(url) as second:
        with pytest.raises(InvalidStatus) as refused:
            async with connect(url):
                pass
        assert refused.value.response.status_code == 429
        await second.close()
        await until(lambda: stand.gateway.sockets.places.held("small") <= 1)
        async with connect(url):
            pass


@pytest.mark.parametrize("settings", [{"keys": KEYS}], indirect=True)
async def test_what_is_spoken_is_finished_when_its_key_is_revoked(stand: Any, talk: Any) -> None:
    steps = asyncio.Queue[None]()

    async def slowly(performance: Any) -> None:
        for word in TEXT:
            await steps.get()
            await performance.say(word)
        await steps.get()
        await performance.end()

    stand.stage.script = slowly
    body = {"input": TEXT, "response_format": "pcm", "sample_rate": 16_000, "seed": 3}
    headers, heard = {"authorization": "Bearer hi"}, b""
    steps.put_nowait(None)
    async with stand.http.stream("POST", "/v1/audio/speech", json=body, headers=headers) as answer:
        async for part in answer.aiter_bytes():
            heard += part
            stand.gateway.context.keys.take(KeyRing({}, required=True))
            stand.gateway.context.services.admission.keys_changed()
            steps.put_nowait(None)
    assert np.array_equal(np.frombuffer(heard, "<i2"), talk.sound(TEXT, seed=3))


BEHIND: Final = {"trusted_proxies": "127.0.0.1", "max_connections_per_address": 1}


@pytest.mark.parametrize("settings", [BEHIND], indirect=True)
async def test_an_address_behind_a_trusted_proxy_holds_as_many_as_it_may(stand: Any) -> None:
    url = stand.url.replace("http", "ws") + STREAM_PATH
    one, other = ({"x-forwarded-for": f"192.0.2.{n}"} for n in (1, 2))
    async with connect(url, additional_headers=one):
        with pytest.raises(InvalidStatus) as refused:
            async with connect(url, additional_headers=one):
                pass
        assert refused.value.response.status_code == 429
        async with connect(url, additional_headers=other):
            pass


@pytest.mark.parametrize("settings", [{"max_connections_per_address": 1}], indirect=True)
async def test_without_a_trusted_proxy_no_client_says_its_address(stand: Any) -> None:
    url = stand.url.replace("http", "ws") + STREAM_PATH
    async with connect(url), connect(url):
        pass
