"""Checks of new connections: their origin, the host they name, and how many the system allows."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import structlog
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.errors import ForeignHost, ForeignOrigin, TooManyConnections
from gateway.settings import GatewaySettings
from ttscommon.wire.errors import AntiphonError

Refuse: TypeAlias = Callable[[HTTPConnection, AntiphonError, Receive, Send], Awaitable[None]]

_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_HARMLESS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_ALL: Final = "*"
_PORTS: Final = {"http": 80, "https": 443}


class Doors:
    """ASGI middleware. What it refuses is told by `refuse`, and reaches no protocol."""

    def __init__(self, app: ASGIApp, settings: GatewaySettings, refuse: Refuse) -> None:
        self._app = app
        self._refuse = refuse
        self._origins = frozenset(settings.cors_origins)
        self._hosts = _hosts(settings)
        self._places = ConnectionCounts()
        self._entrance = Entrance()
        # Behind a proxy that is not known, all clients would have one address.
        self._most = settings.max_connections_per_address if settings.trusted_proxies else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._entrance.pass_in_turn()
        address = _address(scope)
        try:
            self._check(scope)
            self._places.take(address, self._most, "this address")
        except AntiphonError as error:
            await self._refuse(HTTPConnection(scope), error, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._places.leave(address)

    def _check(self, scope: Scope) -> None:
        """Raises ForeignHost, ForeignOrigin."""
        host, origin = _named(scope)
        if self._hosts is not None and _name(host) not in self._hosts:
            raise ForeignHost(
                "this gateway does not go by the name in 'Host'; see ANTIPHON_ALLOWED_HOSTS"
            )
        if origin is None or scope.get("method") in _HARMLESS or _ALL in self._origins:
            return
        if origin not in self._origins and not _same(origin, host):
            raise ForeignOrigin(
                "web pages of this origin may not call here; see ANTIPHON_CORS_ORIGINS"
            )


def _named(scope: Scope) -> tuple[str, str | None]:
    """`Host` and `Origin`; the first of each."""
    host, origin = "", None
    for name, value in reversed(scope["headers"]):
        if name == b"host":
            host = value.decode("latin-1")
        elif name == b"origin":
            origin = value.decode("latin-1")
    return host, origin


def _address(scope: Scope) -> str:
    """The client's, as trusted proxies tell it."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _hosts(settings: GatewaySettings) -> frozenset[str] | None:
    """The names that are answered to; None: any.

    Where only this machine can connect, only its own names are meant.
    """
    given = settings.allowed_hosts or (_LOOPBACK_NAMES if _loopback(settings.host) else (_ALL,))
    return None if _ALL in given else frozenset(name.lower() for name in given)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _name(host: str) -> str:
    """A `Host` without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _same(origin: str, host: str) -> bool:
    """Whether a page of `origin` came from `host`. A proxy may have taken the encryption away."""
    try:
        parts = urlsplit(origin)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return False
    if parts.scheme not in _PORTS or not parts.hostname:
        return False
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return name == _name(host) and str(port) == _port(host, parts.scheme)


def _port(host: str, scheme: str) -> str:
    name = _name(host)
    return host[len(name) + 1 :] or str(_PORTS[scheme])


# Some 50 milliseconds of beginnings, which no listener notices.
_A_TURN: Final = 32


class Entrance:
    """A few requests begin in each turn of the event loop, in the order of their coming.

    Thousands that come in one moment would begin in one turn, which takes seconds; those that
    listen already would hear nothing meanwhile, and a probe would take the gateway for hung.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._begun = 0

    async def pass_in_turn(self) -> None:
        """Return when it is the caller's turn."""
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._pass_on)
        if self._begun < _A_TURN:
            self._begun += 1
            return
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        await mine

    def _pass_on(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < _A_TURN:
            first = self._waiting.popleft()
            if not first.done():  # its client is still there
                first.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._pass_on)


class ConnectionCounts:
    """Places by name; a name without a place takes no memory."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    def held(self, name: str) -> int:
        return self._held[name]

    def take(self, name: str, most: int | None, whose: str) -> None:
        """Take one of the `most` places of `name`; raises TooManyConnections. None: no limit."""
        if most is not None and self._held[name] >= most:
            raise TooManyConnections(f"{whose} holds {most} connections already")
        self._held[name] += 1

    def leave(self, name: str) -> None:
        """Give a place back."""
        self._held[name] -= 1
        if not self._held[name]:
            del self._held[name]


# The broker's connection, the admin port, the libraries' files.
RESERVED: Final = 128

log_ = structlog.get_logger(__name__)


def affordable_connections(wanted: int, spools: int) -> int:
    """How many of the `wanted` connections this process can hold at once, beside `spools`: files of
    responses that are sent whole. Its soft limit of descriptors is raised as far as it may be.

    Fewer than wanted are told in the log: without a descriptor nothing can be accepted, and the
    connection to the broker could not be made again either.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + spools + RESERVED
    limit = _raised(soft, hard, needed)
    if limit >= needed:
        return wanted
    left = max(0, limit - RESERVED)
    granted = min(wanted, max(1, left - min(spools, left // 5)))
    log_.warning("descriptors.short", limit=limit, needed=needed, connections=granted)
    return granted


def _raised(soft: int, hard: int, needed: int) -> int:
    """The soft limit, raised to what is needed or to the hard one."""
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return max(soft, needed)
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        return soft
    return most
