"""Malformed requests and messages: no crash, no leak, no 500. `make fuzz` sends ten thousand each.

`make test-all` sends five hundred, `make test` fifty.
"""

import asyncio
import contextlib
import gc
import json
import os
import random
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.protocols.wyoming import WyomingServer, event
from tests.waits import TIMEOUT_S

JSON: Final = {"content-type": "application/json"}
COUNT: Final = int(os.environ.get("ANTIPHON_FUZZ", "50"))
_ACROSS: Final = 8
_PER_SOCKET: Final = 25

_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1e308, float("nan"), 2**70, "", " ", "x", "\x00", "a" * 5000, "😀",
    "\ud800", [], [[]], {}, {"id": 1}, {"type": "id"}, "mp3", "pcm_16000", "1", "NaN", "-5",
    "<break time=", "{", "tts-1", "alloy",
)  # fmt: skip
# Of a Realtime session, where what is wrong may lie deeper.
_PARTS: Final[tuple[Any, ...]] = (
    {"type": "input_text", "text": "Hi."}, {"type": "input_audio", "audio": "AAAA" * 4000},
    {"type": "input_audio", "audio": "A"}, {"type": "input_audio", "audio": None}, {"audio": []},
    {"type": 5, "text": 5}, 5, None, {},
)  # fmt: skip
_TURNS: Final[tuple[Any, ...]] = (
    None, {}, 5, {"type": "semantic_vad"}, {"type": "server_vad", "idle_timeout_ms": 100},
    {"type": []}, {"threshold": "x"}, {"idle_timeout_ms": -1}, {"silence_duration_ms": None},
)  # fmt: skip


def _deep(dice: random.Random) -> Any:
    """An item, a session or a response that is nearly right."""
    content = dice.choice([None, "x", [dice.choice(_PARTS) for _ in range(dice.randrange(4))]])
    item = {"role": dice.choice(["user", "assistant", 5]), "content": content, "id": "x"}
    heard = {"turn_detection": dice.choice(_TURNS), "format": dice.choice(["audio/pcmu", 5, {}])}
    said = {"format": {"type": dice.choice(["audio/pcma", "x", []])}, "voice": dice.choice(_VALUES)}
    sound: Any = dice.choice([{"input": heard}, {"output": said}, {"input": 5}, [], None])
    session = {"type": "realtime", "audio": sound, "max_output_tokens": dice.choice(_VALUES)}
    asked = {"input": dice.choice([[item], [5], 5, [{"type": "item_reference", "id": "x"}]])}
    return dice.choice([item, session, {**asked, "conversation": dice.choice(["none", None, 5])}])


HTTP: Final = {
    "openai": (
        "/v1/audio/speech",
        ("input", "model", "voice", "response_format", "speed", "stream_format", "stream",
         "sample_rate", "seed", "language", "resumable", "instructions"),
    ),
    "elevenlabs": (
        "/v1/text-to-speech/x/stream?output_format=",
        ("text", "model_id", "voice_settings", "language_code", "seed"),
    ),
    "cartesia": (
        "/tts/bytes",
        ("transcript", "model_id", "voice", "output_format", "speed", "generation_config",
         "language", "continue"),
    ),
    "deepgram": ("/v1/speak?encoding=", ("text", "model", "sample_rate")),
    "dialogue": (
        "/v1/text-to-dialogue/stream?output_format=",
        ("inputs", "model_id", "language_code", "seed", "settings"),
    ),
    "secrets": ("/v1/realtime/client_secrets", ("session", "expires_after", "surprise")),
    "lexicons": (
        "/v1/audio/lexicons",
        ("name", "language", "entries", "alphabet", "case_sensitive"),
    ),
    "jobs": (
        "/v1/audio/jobs",
        ("input", "input_format", "response_format", "title", "author", "cast",
         "paragraph_pause_s", "seed", "voice", "metadata"),
    ),
}  # fmt: skip

SOCKETS: Final = {
    "native": (
        "/v1/audio/speech/stream",
        ("type", "text", "model", "voice", "request_id", "from_sample", "seed", "sample_rate",
         "context_id", "phones", "seconds", "played_s", "token"),
        ("session.config", "input.text", "input.done", "cancel", "session.resume", "input.flush",
         "input.phones", "input.pause", "session.close"),
    ),
    "stream-input": (
        "/v1/text-to-speech/x/stream-input?output_format=pcm_16000",
        ("text", "flush", "voice_settings", "try_trigger_generation", "xi-api-key"),
        (),
    ),
    "multi-stream-input": (
        "/v1/text-to-speech/x/multi-stream-input?output_format=pcm_16000",
        ("text", "flush", "context_id", "close_context", "voice_settings", "contextId"),
        (),
    ),
    "cartesia": (
        "/tts/websocket",
        ("transcript", "context_id", "continue", "flush", "cancel", "voice", "output_format",
         "max_buffer_delay_ms", "model_id"),
        (),
    ),
    "deepgram": ("/v1/speak", ("type", "text"), ("Speak", "Flush", "Clear", "Sing")),
    "flux": (
        "/v2/speak",
        ("type", "text", "speed", "playback_offset"),
        ("Speak", "Flush", "Interrupt", "Configure", "Sing"),
    ),
    "realtime": (
        "/v1/realtime",
        ("type", "event_id", "session", "item", "item_id", "previous_item_id", "audio",
         "audio_end_ms", "response", "response_id"),
        ("session.update", "conversation.item.create", "conversation.item.retrieve",
         "conversation.item.delete", "conversation.item.truncate", "response.create",
         "response.cancel", "input_audio_buffer.append", "input_audio_buffer.commit",
         "input_audio_buffer.clear"),
    ),
    "dialogue-stream": (
        "/v1/text-to-dialogue/stream-input?output_format=pcm_16000",
        ("inputs", "voices", "flush", "close_socket", "voice_settings", "keep_alive"),
        (),
    ),
    "dialogue": (
        "/v1/text-to-dialogue/multi-stream-input?output_format=pcm_16000",
        ("inputs", "voices", "flush", "context_id", "close_context", "voice_settings", "text"),
        (),
    ),
}  # fmt: skip


def message(dice: random.Random, fields: tuple[str, ...], kinds: tuple[str, ...] = ()) -> str:
    """JSON that is wrong somewhere, or no JSON at all."""
    if dice.random() < 0.1:
        return dice.choice(["{", "[]", "null", '"x"', "", "{}", "[" * 5000, "\x00", "{'a': 1}"])
    made = {name: dice.choice(_VALUES) for name in fields if dice.random() < 0.5}
    for name in ("item", "session", "response"):
        if name in made and dice.random() < 0.8:
            made[name] = _deep(dice)
    if made.get("audio") and dice.random() < 0.5:
        made["audio"] = dice.choice(["AAAA" * 2000, "AAA=", "A" * 40_001])
    if kinds and dice.random() < 0.8:
        made["type"] = dice.choice(kinds)
    if dice.random() < 0.2:
        made["surprise"] = dice.choice(_VALUES)
    return json.dumps(made)


async def spread(count: int, one: Callable[[random.Random], Any]) -> None:
    """`one` is done `count` times, several at once, each with dice of its own."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await one(random.Random(number))

    await asyncio.gather(*(work() for _ in range(_ACROSS)))


async def settled(stand: Any) -> None:
    """Nothing is left of what was asked for."""
    async with asyncio.timeout(30):
        await stand.gateway.context.services.admission.idle.wait()
        while stand.gateway.sockets.sessions:
            await asyncio.sleep(0.05)
    assert stand.metric("tts_active_streams", stage="gateway") == 0
    assert (await stand.http.get("/health")).text == "OK"


@pytest.fixture
async def complaints() -> AsyncIterator[list[str]]:
    """What the event loop says of tasks and callbacks that failed unheard."""
    loop, heard = asyncio.get_running_loop(), list[str]()
    loop.set_exception_handler(lambda _, context: heard.append(str(context["message"])))
    yield heard
    loop.set_exception_handler(None)


async def test_malformed_bodies_are_the_clients_fault(
    stand: Any, subtests: pytest.Subtests
) -> None:
    for protocol, (path, fields) in HTTP.items():
        with subtests.test(protocol):
            await spread(COUNT, partial(send_malformed, stand, path, fields))
            await settled(stand)


async def send_malformed(
    stand: Any, path: str, fields: tuple[str, ...], dice: random.Random
) -> None:
    where = path + (dice.choice(["mp3", "pcm_16000", "", "%00", "9"]) if "?" in path else "")
    body = message(dice, fields).encode("utf-8", "replace")
    # Eight texts of one key are read one after another, each in a process of its own.
    response = await stand.http.post(where, content=body, headers=JSON, timeout=4 * TIMEOUT_S)
    assert response.status_code in (200, 202, 400, 404, 409, 413, 422, 429), response.text
    if not response.is_success:
        assert response.json()
    elif response.status_code == 202:  # a key can keep a few jobs
        await stand.http.delete(f"{where}/{response.json()['id']}")


async def test_malformed_messages_end_nothing_else_and_are_all_heard_of(
    stand: Any, complaints: list[str], subtests: pytest.Subtests
) -> None:
    for protocol, (path, fields, kinds) in SOCKETS.items():
        with subtests.test(protocol):
            url = stand.url.replace("http", "ws") + path
            await spread(COUNT // _PER_SOCKET, partial(type_malformed, url, fields, kinds))
            await settled(stand)
            gc.collect()
            await asyncio.sleep(0)
            assert complaints == []


async def type_malformed(
    url: str, fields: tuple[str, ...], kinds: tuple[str, ...], dice: random.Random
) -> None:
    with contextlib.suppress(ConnectionClosed, InvalidStatus):
        async with connect(url, open_timeout=30, close_timeout=0.3) as socket:
            for _ in range(_PER_SOCKET):
                text = message(dice, fields, kinds).encode("utf-8", "replace")
                await socket.send(text.decode("utf-8"))
            if dice.random() < 0.5:
                await socket.close()
            else:
                socket.transport.abort()
    assert socket.close_code != 1011, socket.close_reason


async def test_malformed_events_of_wyoming_end_one_connection(stand: Any) -> None:
    kinds = ("describe", "synthesize", "synthesize-start", "synthesize-chunk", "synthesize-stop")

    async def one(dice: random.Random) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for _ in range(5):
            data = dice.choice(_VALUES)
            made = event(dice.choice(kinds), {"text": data, "voice": dice.choice(_VALUES)})
            writer.write(made if dice.random() < 0.8 else dice.randbytes(40) + b"\n")
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.transport.abort()

    async with WyomingServer(stand.gateway.context, "127.0.0.1", 0) as server:
        await spread(COUNT // 5, one)
    await settled(stand)


def form(dice: random.Random) -> tuple[bytes, str]:
    """A form that is wrong somewhere, and what it says it is."""
    boundary = dice.choice(["b", "b b", "-" * 60, "\xff", ""])
    line = f"--{boundary}\r\n".encode("latin-1")
    parts = [
        b"Content-Disposition: form-data; name=" + dice.choice([b'"name"', b"x", b'"', b""]),
        b"Content-Type: multipart/mixed; boundary=b",
        b"\r\n" * dice.randrange(50),
        b":" * dice.randrange(50),
        dice.randbytes(dice.randrange(200)),
        b"x" * dice.randrange(20_000),
        b"",
    ]
    made = b"".join(line + b"\r\n".join(dice.sample(parts, 3)) for _ in range(dice.randrange(30)))
    end = dice.choice([b"", line, line[:-2] + b"--\r\n"])
    return made + end, f"multipart/form-data; boundary={dice.choice([boundary, chr(34)])}"


@pytest.mark.parametrize("settings", [{"max_adapters": 2}], indirect=True)
async def test_malformed_forms_are_the_clients_fault(stand: Any) -> None:
    async def one(dice: random.Random) -> None:
        data, kind = form(dice)
        headers = {"content-type": kind.encode("latin-1")}
        path = dice.choice(["voices", "adapters", "jobs"])
        answer = await stand.http.post(f"/v1/audio/{path}", content=data, headers=headers)
        assert answer.status_code in (400, 413), answer.text

    await spread(COUNT, one)
    await settled(stand)
