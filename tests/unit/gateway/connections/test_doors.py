"""Which web pages may call, and by which names."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from gateway.connections import Doors
from gateway.settings import GatewaySettings
from ttscommon.wire.errors import AntiphonError


async def ask(settings: GatewaySettings, kind: str = "http", **headers: str) -> str:
    """`in`, or the code of what is refused. `method` and `client` are no headers."""
    said: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        said.append("in")

    async def refuse(_: HTTPConnection, error: AntiphonError, __: Receive, ___: Send) -> None:
        said.append(error.code)

    scope: dict[str, Any] = {"type": kind, "client": ("192.0.2.1", 5)}
    if kind == "http":
        scope["method"] = headers.pop("method", "POST")
    scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
    doors = Doors(app, settings, refuse)
    await doors(scope, None, None)  # type: ignore[arg-type]
    return said[0]


LOCAL = GatewaySettings()
OPEN = GatewaySettings(host="0.0.0.0")


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    ("host", "origin", "said"),
    [
        ("localhost:8000", "http://localhost:8000", "in"),
        ("127.0.0.1", "http://127.0.0.1", "in"),
        ("[::1]:8000", "http://[::1]:8000", "in"),
        ("localhost:8000", "http://evil.example", "foreign_origin"),
        ("localhost:8000", "http://localhost:3000", "foreign_origin"),
        ("localhost:8000", "null", "foreign_origin"),
        ("localhost:8000", "http://[", "foreign_origin"),
        ("evil.example:8000", "http://evil.example:8000", "foreign_host"),
        ("", "http://localhost", "foreign_host"),
    ],
)
async def test_a_local_gateway_serves_its_own_pages(
    kind: str, host: str, origin: str, said: str
) -> None:
    assert await ask(LOCAL, kind, host=host, origin=origin) == said


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_clients_that_are_no_browsers_say_no_origin(kind: str) -> None:
    assert await ask(LOCAL, kind, host="127.0.0.1:8000") == "in"
    assert await ask(OPEN, kind, host="tts.example.com") == "in"


async def test_behind_a_proxy_that_ends_tls_the_page_is_still_its_own() -> None:
    said = await ask(OPEN, "websocket", host="tts.example.com", origin="https://tts.example.com")
    assert said == "in"


async def test_reading_is_left_to_what_browsers_allow_pages_to_read() -> None:
    headers = {"host": "localhost", "origin": "http://evil.example"}
    assert await ask(LOCAL, method="GET", **headers) == "in"
    assert await ask(LOCAL, method="DELETE", **headers) == "foreign_origin"
    assert await ask(LOCAL, method="GET", host="evil.example") == "foreign_host"


async def test_settings_let_named_pages_and_names_in() -> None:
    named = GatewaySettings(cors_origins="https://a.example", allowed_hosts="TTS.example")  # type: ignore[arg-type]
    assert await ask(named, "websocket", host="tts.example", origin="https://a.example") == "in"
    assert await ask(named, "websocket", host="localhost") == "foreign_host"
    every = GatewaySettings(cors_origins="*", allowed_hosts="*")  # type: ignore[arg-type]
    assert await ask(every, "websocket", host="x", origin="https://b.example") == "in"
