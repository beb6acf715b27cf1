"""Which web pages may call, and by which names."""

import asyncio
import resource
from itertools import pairwise, product
from typing import Any

import pytest
from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from gateway.connections import ConnectionCounts, Doors, Entrance, affordable_connections
from gateway.errors import TooManyConnections
from gateway.settings import GatewaySettings
from ttscommon.wire.errors import AntiphonError

LOCAL, OPEN = GatewaySettings(), GatewaySettings(host="0.0.0.0")
NAMED = GatewaySettings(cors_origins="https://a.example", allowed_hosts="TTS.example")  # type: ignore[arg-type]
EVERY = GatewaySettings(cors_origins="*", allowed_hosts="*")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["POST", "DELETE", None])
@pytest.mark.parametrize(
    ("settings", "host", "origin", "said"),
    [
        (LOCAL, "localhost:8000", "http://localhost:8000", "in"),
        (LOCAL, "127.0.0.1", "http://127.0.0.1", "in"),
        (LOCAL, "[::1]:8000", "http://[::1]:8000", "in"),
        (LOCAL, "localhost:8000", "http://evil.example", "foreign_origin"),
        (LOCAL, "localhost:8000", "http://localhost:3000", "foreign_origin"),
        (LOCAL, "localhost:8000", "null", "foreign_origin"),
        (LOCAL, "localhost:8000", "http://[", "foreign_origin"),
        (LOCAL, "evil.example:8000", "http://evil.example:8000", "foreign_host"),
        (LOCAL, "", "http://localhost", "foreign_host"),
        (LOCAL, "127.0.0.1:8000", None, "in"),  # no browser
        (OPEN, "tts.example.com", None, "in"),
        (OPEN, "tts.example.com", "https://tts.example.com", "in"),  # a proxy ended TLS
        (NAMED, "tts.example", "https://a.example", "in"),
        (NAMED, "localhost", None, "foreign_host"),
        (EVERY, "x", "https://b.example", "in"),
    ],
)
async def test_pages_come_in_from_where_and_by_the_names_that_are_allowed(
    method: str | None, settings: GatewaySettings, host: str, origin: str | None, said: str
) -> None:
    assert await answer(settings, method, host, origin) == said


async def test_reading_is_left_to_what_browsers_allow_pages_to_read() -> None:
    assert await answer(LOCAL, "GET", "localhost", "http://evil.example") == "in"
    assert await answer(LOCAL, "GET", "evil.example", None) == "foreign_host"


NAMES = ("localhost", "127.0.0.1", "[::1]", "evil.example", "localhost.evil.example", "null", "")
PORTS = ("", ":8000")


async def test_no_foreign_page_comes_in() -> None:
    """However its origin and its host are put together."""
    schemes = ("http://", "https://", "file://", "")
    for scheme, page, name, port, own in product(schemes, NAMES, NAMES, PORTS, PORTS):
        host, origin = name + own, scheme + page + port
        mine = scheme.startswith("http") and page + port == host and name in NAMES[:3]
        said = await answer(LOCAL, "POST", host, origin)
        assert said != "in" or mine or not origin, (host, origin)


async def answer(
    settings: GatewaySettings, method: str | None, host: str, origin: str | None
) -> str:
    """`in`, or the code of what is refused. Without a method it is a WebSocket."""
    said: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        said.append("in")

    async def refuse(_: HTTPConnection, error: AntiphonError, __: Receive, ___: Send) -> None:
        said.append(error.code)

    headers = [(b"host", host.encode()), *([(b"origin", origin.encode())] if origin else [])]
    scope: dict[str, Any] = {"client": ("192.0.2.1", 5), "headers": headers, "type": "websocket"}
    if method:
        scope |= {"type": "http", "method": method}
    await Doors(app, settings, refuse)(scope, None, None)  # type: ignore[arg-type]
    return said[0]


@pytest.mark.parametrize(
    ("limits", "connections", "raised"),
    [
        ((1024, 100_000), 4096, 5224),
        ((1024, 1024), 717, None),
        ((256, 256), 103, None),
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
    assert affordable_connections(4096, 1000) == connections
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
