"""The client against a small server that speaks the protocol of docs/protocol.md."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from antiphon.client import (
    Address,
    Audio,
    Finished,
    GatewayError,
    SpeechOptions,
    Started,
    Word,
    Words,
    speak,
    voices,
)
from antiphon.say import from_stdin, whole

START = {
    "type": "audio.start",
    "request_id": "r1",
    "format": "pcm_s16le",
    "sample_rate": 16_000,
    "channels": 1,
    "model": "vesper",
    "voice": "slt",
    "seed": 7,
    "digital_source_type": "trainedAlgorithmicMedia",
    "generated_by": "Harbour Radio",
}
DONE = {"type": "audio.done", "request_id": "r1", "outcome": "ok", "samples": 2}
REFUSAL = {
    "type": "error",
    "request_id": None,
    "error": {"message": "there is no voice 'hal'", "type": "x", "param": "voice", "code": "y"},
}

Handler = Callable[[ServerConnection], Awaitable[None]]


@asynccontextmanager
async def server(handler: Handler, **options: Any) -> AsyncIterator[str]:
    async with serve(handler, "127.0.0.1", 0, **options) as running:
        port = next(iter(running.sockets)).getsockname()[1]
        yield f"http://127.0.0.1:{port}"


async def received_until_done(socket: ServerConnection) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    async for frame in socket:
        messages.append(json.loads(frame))
        if messages[-1]["type"] == "input.done":
            break
    return messages


Seen = list[dict[str, Any]]


def answering(*answers: dict[str, Any] | bytes, seen: Seen | None = None) -> Handler:
    """Sends these when it has the whole text."""

    async def handler(socket: ServerConnection) -> None:
        received = await received_until_done(socket)
        if seen is not None:
            seen.extend(received)
        for one in answers:
            await socket.send(one if isinstance(one, bytes) else json.dumps(one))

    return handler


async def typed(*pieces: str) -> AsyncIterator[str]:
    for piece in pieces:
        yield piece


async def failure(url: str, text: AsyncIterator[str], key: str | None = None) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        async for _ in speak(url, text, SpeechOptions(), key):
            pass
    return caught.value


async def test_text_goes_piece_by_piece_and_audio_comes_back() -> None:
    seen: Seen = []
    words = {"type": "audio.words", "words": []}
    sound = answering({"type": "session.created"}, START, b"\1\0\2\0", words, DONE, seen=seen)
    async with server(sound) as url:
        options = SpeechOptions(voice="slt", seed=7)
        events = [event async for event in speak(url, typed("The tide ", "comes in."), options)]
    assert seen == [
        {
            "type": "session.config",
            "model": "default",
            "resumable": True,
            "voice": "slt",
            "seed": 7,
        },
        {"type": "input.text", "text": "The tide "},
        {"type": "input.text", "text": "comes in."},
        {"type": "input.done"},
    ]
    assert events == [
        Started("r1", 16_000, "slt", 7, "vesper", True, "Harbour Radio"),
        Audio(b"\1\0\2\0"),
        Finished("ok", DONE),
    ]


async def test_of_no_text_the_gateway_says_that_there_is_nothing_to_say() -> None:
    seen: Seen = []
    async with server(answering(REFUSAL, seen=seen)) as url:
        await failure(url, typed())
    assert seen[1:] == [{"type": "input.text", "text": ""}, {"type": "input.done"}]


async def test_audio_arrives_while_text_is_still_being_written() -> None:
    async def handler(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.recv()
        await socket.send(json.dumps(START))
        await socket.send(b"\1\0")
        await received_until_done(socket)
        await socket.send(json.dumps(DONE))

    heard = asyncio.Event()

    async def text() -> AsyncIterator[str]:
        yield "First."
        await heard.wait()
        yield "Second."

    async with server(handler) as url, asyncio.timeout(10):
        async for event in speak(url, text(), SpeechOptions()):
            if isinstance(event, Audio):
                heard.set()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (REFUSAL["error"], ("there is no voice 'hal'", None)),
        ({"message": "no room", "code": "overloaded", "retry_after_s": 3}, ("no room", 3)),
    ],
)
async def test_a_refusal_is_said_in_the_servers_words_and_when_to_ask_again(
    error: dict[str, Any], told: tuple[str, float | None]
) -> None:
    refusal = {"type": "error", "request_id": None, "error": error}
    async with server(answering(refusal)) as url:
        refused = await failure(url, whole("Hello."))
    assert told[0] in str(refused)
    assert refused.retry_after_s == told[1]


async def test_a_connection_that_ends_early_is_an_error() -> None:
    async def handler(socket: ServerConnection) -> None:
        await socket.send(json.dumps(START))
        await socket.close(1011, "out of breath")

    async with server(handler) as url:
        assert "ended early" in str(await failure(url, whole("Hello.")))


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_a_connection_cut_in_its_handshake_is_tried_again(how: str) -> None:
    tries = 0

    def cut_the_first(socket: ServerConnection, request: object) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            getattr(socket.transport, how)()

    async with server(answering(START, DONE), process_request=cut_the_first) as url:
        events = [event async for event in speak(url, whole("hello"), SpeechOptions())]
    assert [type(event) for event in events] == [Started, Finished]
    assert tries == 2


async def test_nobody_there_is_said_with_what_to_do() -> None:
    assert "antiphon up" in str(await failure("http://127.0.0.1:1", whole("Hello.")))
    with pytest.raises(GatewayError, match="antiphon up"):
        await voices("http://127.0.0.1:1")


async def test_a_list_that_does_not_come_in_time_is_told_as_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("antiphon.client.gateway._TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(GatewayError, match=r"did not answer within 0\.05 s"):
            await voices(f"http://127.0.0.1:{port}")


async def test_standard_input_is_decoded_across_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = iter([b"caf\xc3", b"\xa9 au", b" lait\xe2", b""])
    monkeypatch.setattr("os.read", lambda fd, size: next(reads))
    monkeypatch.setattr("sys.stdin", type("Stdin", (), {"fileno": lambda self: 0})())
    assert [piece async for piece in from_stdin()] == [
        "caf",
        "é au",
        " lait",
        "\N{REPLACEMENT CHARACTER}",
    ]


async def test_words_are_timed_from_the_first_sample_and_told_once() -> None:
    """The connection breaks, and what was being typed goes on as a second request."""
    seconds = [{"word": "tide", "start_s": 0.0, "end_s": 0.5}]

    def words(*told: dict[str, Any]) -> dict[str, Any]:
        return {"type": "audio.words", "words": told}

    first = words({"word": "The", "start_s": 0.0, "end_s": 0.25})
    again = {**START, "request_id": "r2"}
    sound = answering(START, first, bytes(2 * 16_000), first, again, words(*seconds), DONE)
    async with server(sound) as url:
        events = [event async for event in speak(url, whole("The tide"), SpeechOptions())]
    told = [event.words for event in events if isinstance(event, Words)]
    assert told == [(Word("The", 0.0, 0.25),), (Word("tide", 1.0, 1.5),)]


@pytest.mark.parametrize("rest", ["", "\n"])
@pytest.mark.parametrize("late", [False, True], ids=["before the speech ends", "after it"])
async def test_text_that_ends_behind_a_broken_connection_is_no_second_request(
    late: bool, rest: str
) -> None:
    connections = 0
    ends = asyncio.Event()
    wrong = {"message": "input.done must follow input.text", "code": "wrong_order"}

    async def handler(socket: ServerConnection) -> None:
        nonlocal connections
        connections += 1
        await socket.recv()
        message = json.loads(await socket.recv())
        await socket.send(json.dumps(START))
        if connections == 1:
            await socket.send(b"\1\0")
            socket.transport.abort()
            return
        assert (message["type"], message["from_sample"]) == ("session.resume", 1)
        if late:
            await socket.send(json.dumps(DONE))
        ends.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                told = await received_until_done(socket)
                if told:
                    await socket.send(json.dumps({"type": "error", "error": wrong}))
        if not late:
            await socket.send(json.dumps(DONE))

    async def text() -> AsyncIterator[str]:
        yield "The tide comes in."
        await ends.wait()
        if rest:
            yield rest

    async with server(handler) as url, asyncio.timeout(10):
        events = [event async for event in speak(url, text(), SpeechOptions())]
    assert [type(event) for event in events] == [Started, Audio, Finished]
    assert connections == 2


async def test_a_key_is_brought_and_a_refusal_is_in_the_gateways_words() -> None:
    refusal = {"error": {"message": "this key is not known", "code": "invalid_api_key"}}

    def check(connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("authorization") == "Bearer right":
            return None
        return connection.respond(401, json.dumps(refusal))

    async with server(answering(DONE), process_request=check) as url:
        assert [e async for e in speak(url, whole("Hi."), SpeechOptions(), "right")]
        refused = await failure(url, whole("Hi."), "wrong")
    assert "this key is not known" in str(refused)
    assert refused.code == "invalid_api_key"


@pytest.mark.parametrize(
    ("given", "url", "socket"),
    [
        ("http://a:8000", "http://a:8000", "ws://a:8000/v1/audio/speech/stream"),
        ("a:8000", "http://a:8000", "ws://a:8000/v1/audio/speech/stream"),
        ("https://a/v1", "https://a", "wss://a/v1/audio/speech/stream"),
        ("https://a/speech/v1/", "https://a/speech", "wss://a/speech/v1/audio/speech/stream"),
        ("wss://a", "https://a", "wss://a/v1/audio/speech/stream"),
        (" http://[::1]:8000/ ", "http://[::1]:8000", "ws://[::1]:8000/v1/audio/speech/stream"),
    ],
)
def test_an_address_may_be_written_in_many_ways(given: str, url: str, socket: str) -> None:
    address = Address.parse(given)
    assert (address.url, address.socket) == (url, socket)


@pytest.mark.parametrize("given", ["", "http://", "ftp://a", "http://a:99999", "http://a:b", "://"])
def test_what_is_no_address_is_said_in_one_line(given: str) -> None:
    with pytest.raises(GatewayError, match="is no address of a gateway; give one such as"):
        Address.parse(given)
