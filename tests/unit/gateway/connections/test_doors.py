"""Which web pages may call, and by which names."""

import asyncio
import resource
from itertools import pairwise
from typing import Any

import pytest
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from gateway.connections import ConnectionCounts, Doors, Entrance
from gateway.connections.doors import RESERVED, Budget, descriptor_budget
from gateway.errors import TooManyConnections
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


def test_a_budget_fits_what_the_system_gives_and_keeps_a_reserve() -> None:
    wanted = Budget(4096, 1000)
    assert wanted.within(wanted.descriptors) == wanted
    for limit in (256, 1024, 4096):
        granted = wanted.within(limit)
        assert granted.descriptors <= limit
        assert granted.connections >= (limit - RESERVED) // 2


@pytest.mark.parametrize(
    ("limits", "connections", "raised"),
    [
        ((1024, 100_000), 4096, 5224),
        ((1024, 1024), 717, None),
        ((100_000, 100_000), 4096, None),
        ((1024, resource.RLIM_INFINITY), 4096, 5224),
    ],
)
def test_the_soft_limit_is_raised_and_the_hard_one_kept(
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    connections: int,
    raised: int | None,
) -> None:
    given: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda kind, to: given.append((kind, to)))
    assert descriptor_budget(Budget(4096, 1000)).connections == connections
    wanted = [] if raised is None else [(resource.RLIMIT_NOFILE, (raised, limits[1]))]
    assert given == (wanted or given[:1])
    assert raised is None or given == wanted


def test_a_name_has_as_many_places_as_it_may_hold_and_gets_them_back() -> None:
    places = ConnectionCounts()
    places.take("a", 2, "this key")
    places.take("a", 2, "this key")
    places.take("b", 2, "this key")
    with pytest.raises(TooManyConnections, match="this key holds 2"):
        places.take("a", 2, "this key")
    places.leave("a")
    places.take("a", 2, "this key")
    for name in ("a", "a", "b"):
        places.leave(name)
    assert places.held("a") == places.held("b") == 0


async def test_requests_of_one_moment_begin_a_few_a_turn_of_the_loop_in_their_order() -> None:
    entrance, begun = Entrance(), list[int]()

    async def request(number: int) -> None:
        await entrance.pass_in_turn()
        begun.append(number)

    requests = [asyncio.create_task(request(number)) for number in range(100)]
    await asyncio.sleep(0)  # all of them have asked by now
    requests[40].cancel()  # its client went
    seen = [0, len(begun)]
    while len(begun) < 99:
        await asyncio.sleep(0)
        seen.append(len(begun))
    assert max(after - before for before, after in pairwise(seen)) == 32
    assert begun == [*range(40), *range(41, 100)]
    async with asyncio.timeout(1):
        await entrance.pass_in_turn()  # the line is over when all have begun
