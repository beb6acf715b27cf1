"""API keys over real services: who is let in, and what a key may use."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from antiphon.stack import LocalStack, StackConfig
from tests.waits import until

ONCE = "requests_per_minute = 1\n"
KEYS = {"alice": "", "bob": ONCE, "carol": "", "erin": "", "frank": ONCE}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """What the services log."""
    return []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keyed(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> AsyncIterator[LocalStack]:
    """A fake stack in which all of KEYS have keys of their names."""
    folder = tmp_path_factory.mktemp("keyed")
    path = folder / "keys.toml"
    path.write_text(
        "\n".join(
            f'[keys.{name}]\nsha256 = "{hashlib.sha256(name.encode()).hexdigest()}"\n{limits}'
            for name, limits in KEYS.items()
        )
    )
    environ = {"gateway": {"ANTIPHON_KEYS_FILE": str(path)}}
    config = StackConfig(port=0, engine="fake", store=folder / "store", environ=environ)
    async with LocalStack(config, lambda _, line: lines.append(line)) as stack:
        yield stack


async def test_keys_and_their_limits_hold_at_both_doors(keyed: LocalStack) -> None:
    async with httpx.AsyncClient(base_url=keyed.url) as client:

        async def speak(key: str | None) -> httpx.Response:
            headers = {} if key is None else {"authorization": f"Bearer {key}"}
            return await client.post(
                "/v1/audio/speech", json={"input": "Good morning."}, headers=headers
            )

        for key in (None, "mallory"):
            refused = await speak(key)
            assert refused.status_code == 401
            assert refused.json()["error"]["code"] == "invalid_api_key"
        assert (await speak("alice")).status_code == 200
        assert (await speak("bob")).status_code == 200
        refused = await speak("bob")
        assert refused.status_code == 429
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        assert 50 <= int(refused.headers["retry-after"]) <= 60
        assert (await speak("alice")).status_code == 200

    with pytest.raises(InvalidStatus) as refusal:
        await socket_errors(keyed, "mallory")
    assert refusal.value.response.status_code == 401  # before the upgrade
    assert await socket_errors(keyed, "bob") == ["rate_limit_exceeded"] * 2


async def test_a_token_of_cartesias_stands_for_the_key_that_made_it(keyed: LocalStack) -> None:
    wish = {"transcript": "Good morning.", "context_id": "a"}
    async with httpx.AsyncClient(base_url=keyed.url) as client:
        asked = {"grants": {"tts": True}, "expires_in": 60}
        refused = await client.post("/access-token", json=asked)
        made = await client.post("/access-token", json=asked, headers={"x-api-key": "carol"})
        token = made.json()["token"]
        bearer = {"authorization": f"Bearer {token}"}
        spoken = await client.post("/tts/bytes", json=wish, headers=bearer)
        another = await client.post("/access-token", json=asked, headers=bearer)
    assert [one.status_code for one in (refused, spoken, another)] == [401, 200, 401]
    address = keyed.url.replace("http", "ws") + "/tts/websocket?access_token="
    async with connect(address + token) as socket:
        await socket.send(json.dumps(wish))
        assert json.loads(await socket.recv())["type"] == "chunk"
    with pytest.raises(InvalidStatus):
        await connect(address + token[:-1] + ("A" if token[-1] != "A" else "B"))


async def test_the_playground_learns_whether_its_key_is_taken_and_speaks_with_it(
    keyed: LocalStack,
) -> None:
    async with httpx.AsyncClient(base_url=keyed.url) as client:
        for key, status in ((None, 401), ("mallory", 401), ("alice", 204)):
            headers = {} if key is None else {"authorization": f"Bearer {key}"}
            answer = await client.get("/playground/key", headers=headers)
            assert answer.status_code == status
            assert status == 204 or answer.json()["error"]["code"] == "invalid_api_key"
    url = keyed.url.replace("http", "ws") + "/v1/audio/speech/stream"
    # A browser drops a connection whose server does not choose one of its subprotocols.
    async with connect(url, subprotocols=[Subprotocol("token"), Subprotocol("alice")]) as socket:
        assert socket.subprotocol == "token"
        await socket.send(json.dumps({"type": "session.config"}))
        assert json.loads(await socket.recv())["type"] == "session.created"


async def test_a_revoked_key_ends_at_the_next_request_and_a_new_one_begins(
    keyed: LocalStack,
) -> None:
    path = Path(keyed.config.environ["gateway"]["ANTIPHON_KEYS_FILE"])
    config = {"type": "session.config"}
    text = [{"type": "input.text", "text": "Good morning."}, {"type": "input.done"}]
    url = keyed.url.replace("http", "ws") + "/v1/audio/speech/stream"
    async with connect(url, additional_headers={"authorization": "Bearer erin"}) as socket:
        await socket.send(json.dumps(config))
        assert await speaks(socket, text) == "audio.done"
        path.write_text(
            path.read_text().replace("erin", "dora").replace(hashed("erin"), hashed("dora"))
        )
        async with httpx.AsyncClient(base_url=keyed.url) as client, asyncio.timeout(20):
            headers = {"authorization": "Bearer dora"}
            body = {"input": "Good morning."}
            while True:  # until the gateway has read it
                answer = await client.post("/v1/audio/speech", json=body, headers=headers)
                if answer.status_code == 200:
                    break
                assert answer.status_code == 401
        assert await speaks(socket, text) == "invalid_api_key"


def hashed(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


async def speaks(socket: ClientConnection, messages: list[dict[str, str]]) -> str:
    """How a request on an open socket ends."""
    for message in messages:
        await socket.send(json.dumps(message))
    async for frame in socket:
        if isinstance(frame, str):
            event = json.loads(frame)
            if event["type"] in ("audio.done", "error"):
                return str(event["error"]["code"] if event["type"] == "error" else event["type"])
    raise AssertionError("the socket was closed without an end")


async def socket_errors(stack: LocalStack, key: str) -> list[str]:
    """The errors of two requests of `key` on one socket."""
    url = stack.url.replace("http", "ws") + "/v1/audio/speech/stream"
    headers = {"authorization": f"Bearer {key}"}
    config, text, done = (
        {"type": "session.config"},
        {"type": "input.text", "text": "Good morning."},
        {"type": "input.done"},
    )
    async with connect(url, additional_headers=headers) as socket:
        for message in (config, text, done, text, done):
            await socket.send(json.dumps(message))
        codes: list[str] = []
        while len(codes) < 2:
            event = json.loads(await socket.recv())
            if event["type"] == "error":
                codes.append(event["error"]["code"])
    return codes


SOCKETS = (
    "/v1/audio/speech/stream",
    "/tts/websocket",
    "/v1/speak",
    "/v1/text-to-speech/default/stream-input",
    "/v1/text-to-speech/default/multi-stream-input",
)


async def test_keys_are_checked_before_the_upgrade_in_every_protocol(keyed: LocalStack) -> None:
    for path in SOCKETS:
        assert await handshake(keyed, path, "mallory") == 401
        assert await handshake(keyed, path, "alice") == 101
        # ElevenLabs' clients may bring the key in their first message.
        assert await handshake(keyed, path, None) == (101 if "text-to-speech" in path else 401)


async def handshake(stack: LocalStack, path: str, key: str | None) -> int:
    """The status that a socket's handshake is answered with."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    url = stack.url.replace("http", "ws") + path
    try:
        async with connect(url, additional_headers=headers) as socket:
            assert socket.response is not None
            return socket.response.status_code
    except InvalidStatus as refusal:
        return refusal.response.status_code


async def test_nobody_hears_or_resumes_what_another_key_had_spoken(keyed: LocalStack) -> None:
    body = {"input": "Good morning.", "response_format": "pcm", "resumable": True}
    async with httpx.AsyncClient(base_url=keyed.url) as client:

        async def rest(key: str, token: str | None) -> httpx.Response:
            headers = {"authorization": f"Bearer {key}"}
            return await client.get(
                f"/v1/audio/speech/{request_id}",
                headers=headers if token is None else {**headers, "x-resume-token": token},
            )

        spoken = await client.post(
            "/v1/audio/speech", json=body, headers={"authorization": "Bearer alice"}
        )
        request_id, token = spoken.headers["x-request-id"], spoken.headers["x-resume-token"]
        assert (await rest("alice", token)).content == spoken.content
        assert (await rest("alice", None)).status_code == 404
        assert (await rest("carol", token)).status_code == 404
        assert (await rest("mallory", token)).status_code == 401


async def test_the_log_says_what_was_spoken_for_whom_and_who_was_refused(
    keyed: LocalStack, lines: list[str]
) -> None:
    body, headers = {"input": "Good morning."}, {"authorization": "Bearer frank"}
    async with httpx.AsyncClient(base_url=keyed.url, headers=headers) as client:
        for status in (200, 429):
            assert (await client.post("/v1/audio/speech", json=body)).status_code == status
    await until(lambda: logged(lines, "request.refused") and logged(lines, "request.ended"))
    [ended] = logged(lines, "request.ended")
    assert ended["model"] == "vesper"
    assert ended["characters"] == len(body["input"])
    assert ended["outcome"] == "ok"
    [refused] = logged(lines, "request.refused")
    assert refused["code"] == "rate_limit_exceeded"
    assert "requests a minute" in refused["reason"]


def logged(lines: list[str], event: str) -> list[dict[str, Any]]:
    """Of frank."""
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [one for one in found if one["event"] == event and one.get("tenant") == "frank"]
