"""API keys over real services: who is let in, and what a key may use."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from tests.in_process import services
from tests.in_process import url as address
from tests.stacks import hashed, keys_file
from tests.waits import until
from ttscommon.process.settings import BusSettings

Logged = list[MutableMapping[str, Any]]
TEXT = "Good morning."
CONFIG = json.dumps({"type": "session.config"})
ONCE = "requests_per_minute = 1\n"
KEYS = {"alice": "", "bob": ONCE, "carol": "", "erin": "", "frank": ONCE}


def speech(url: str) -> str:
    """The native socket's address."""
    return url.replace("http", "ws") + "/v1/audio/speech/stream"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keys_file(tmp_path_factory.mktemp("keyed"), KEYS)


@pytest.fixture(scope="module")
def logged() -> Iterator[Logged]:
    """What the services log."""
    with structlog.testing.capture_logs() as entries:
        yield entries


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url(module_broker: BusSettings, keys: Path, logged: Logged) -> AsyncIterator[str]:
    """Of fake services behind a gateway that reads the file of keys."""
    async with services(module_broker, {}, {"keys_file": keys}) as found:
        yield address(found)


def bearer(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}


async def speak(client: httpx.AsyncClient, key: str | None, **body: Any) -> httpx.Response:
    return await client.post("/v1/audio/speech", json={"input": TEXT, **body}, headers=bearer(key))


async def test_keys_and_their_limits_hold_at_both_doors(url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as client:
        for key in (None, "mallory"):
            refused = await speak(client, key)
            assert refused.status_code == 401
            assert refused.json()["error"]["code"] == "invalid_api_key"
        assert (await speak(client, "alice")).status_code == 200
        assert (await speak(client, "bob")).status_code == 200
        refused = await speak(client, "bob")
        assert refused.status_code == 429
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        assert 50 <= int(refused.headers["retry-after"]) <= 60
        assert (await speak(client, "alice")).status_code == 200

    async with connect(speech(url), additional_headers=bearer("bob")) as socket:
        await socket.send(CONFIG)
        assert [await speaks(socket) for _ in range(2)] == ["rate_limit_exceeded"] * 2


async def test_a_token_of_cartesias_stands_for_the_key_that_made_it(url: str) -> None:
    wish = {"transcript": "Good morning.", "context_id": "a"}
    async with httpx.AsyncClient(base_url=url) as client:
        asked = {"grants": {"tts": True}, "expires_in": 60}
        refused = await client.post("/access-token", json=asked)
        made = await client.post("/access-token", json=asked, headers={"x-api-key": "carol"})
        token = made.json()["token"]
        bearer = {"authorization": f"Bearer {token}"}
        spoken = await client.post("/tts/bytes", json=wish, headers=bearer)
        another = await client.post("/access-token", json=asked, headers=bearer)
    assert [one.status_code for one in (refused, spoken, another)] == [401, 200, 401]
    socket_url = url.replace("http", "ws") + "/tts/websocket?access_token="
    async with connect(socket_url + token) as socket:
        await socket.send(json.dumps(wish))
        assert json.loads(await socket.recv())["type"] == "chunk"
    with pytest.raises(InvalidStatus):
        await connect(socket_url + token[:-1] + ("A" if token[-1] != "A" else "B"))


async def test_the_playground_learns_whether_its_key_is_taken_and_speaks_with_it(
    url: str,
) -> None:
    async with httpx.AsyncClient(base_url=url) as client:
        for key, status in ((None, 401), ("mallory", 401), ("alice", 204)):
            answer = await client.get("/playground/key", headers=bearer(key))
            assert answer.status_code == status
            assert status == 204 or answer.json()["error"]["code"] == "invalid_api_key"
    # A browser drops a connection whose server does not choose one of its subprotocols.
    async with connect(
        speech(url), subprotocols=[Subprotocol("token"), Subprotocol("alice")]
    ) as socket:
        assert socket.subprotocol == "token"
        await socket.send(CONFIG)
        assert json.loads(await socket.recv())["type"] == "session.created"


async def test_a_revoked_key_ends_at_the_next_request_and_a_new_one_begins(
    url: str, keys: Path
) -> None:
    async with connect(speech(url), additional_headers=bearer("erin")) as socket:
        await socket.send(CONFIG)
        assert await speaks(socket) == "audio.done"
        held = keys.read_text()
        keys.write_text(held.replace("erin", "dora").replace(hashed("erin"), hashed("dora")))
        async with httpx.AsyncClient(base_url=url) as client, asyncio.timeout(20):
            while (answer := await speak(client, "dora")).status_code != 200:
                assert answer.status_code == 401  # until the gateway has read it
        assert await speaks(socket) == "invalid_api_key"


async def speaks(socket: ClientConnection) -> str:
    """How a request on an open socket ends."""
    await socket.send(json.dumps({"type": "input.text", "text": TEXT}))
    await socket.send(json.dumps({"type": "input.done"}))
    async for frame in socket:
        if isinstance(frame, str):
            event = json.loads(frame)
            if event["type"] in ("audio.done", "error"):
                return str(event["error"]["code"] if event["type"] == "error" else event["type"])
    raise AssertionError("the socket was closed without an end")


SOCKETS = (
    "/v1/audio/speech/stream",
    "/tts/websocket",
    "/v1/speak",
    "/v1/realtime",
    "/v1/text-to-speech/default/stream-input",
    "/v1/text-to-speech/default/multi-stream-input",
)


async def test_keys_are_checked_before_the_upgrade_in_every_protocol(url: str) -> None:
    for path in SOCKETS:
        assert await handshake(url, path, "mallory") == 401
        assert await handshake(url, path, "alice") == 101
        assert await handshake(url, path, "ek_" + "A" * 43) == 401
        # ElevenLabs' clients may bring the key in their first message.
        assert await handshake(url, path, None) == (101 if "text-to-speech" in path else 401)


async def handshake(url: str, path: str, key: str | None) -> int:
    """The status that a socket's handshake is answered with."""
    try:
        async with connect(
            url.replace("http", "ws") + path, additional_headers=bearer(key)
        ) as socket:
            assert socket.response is not None
            return socket.response.status_code
    except InvalidStatus as refusal:
        return refusal.response.status_code


async def test_nobody_hears_or_resumes_what_another_key_had_spoken(url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as client:

        async def rest(key: str, token: str | None) -> httpx.Response:
            headers = bearer(key) | ({} if token is None else {"x-resume-token": token})
            return await client.get(f"/v1/audio/speech/{request_id}", headers=headers)

        spoken = await speak(client, "alice", response_format="pcm", resumable=True)
        request_id, token = spoken.headers["x-request-id"], spoken.headers["x-resume-token"]
        assert (await rest("alice", token)).content == spoken.content
        assert (await rest("alice", None)).status_code == 404
        assert (await rest("carol", token)).status_code == 404
        assert (await rest("mallory", token)).status_code == 401


async def test_the_log_says_what_was_spoken_for_whom_and_who_was_refused(
    url: str, logged: Logged
) -> None:
    async with httpx.AsyncClient(base_url=url) as client:
        for status in (200, 429):
            assert (await speak(client, "frank")).status_code == status

    def of_frank(event: str) -> list[MutableMapping[str, Any]]:
        return [one for one in logged if one["event"] == event and one.get("tenant") == "frank"]

    await until(lambda: of_frank("request.refused") and of_frank("request.ended"))
    [ended] = of_frank("request.ended")
    assert ended["model"] == "vesper"
    assert ended["characters"] == len(TEXT)
    assert ended["outcome"] == "ok"
    [refused] = of_frank("request.refused")
    assert refused["code"] == "rate_limit_exceeded"
    assert "requests a minute" in refused["reason"]
