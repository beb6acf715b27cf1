"""Keys, wherever a client puts them; one key ring stands behind all places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from starlette.requests import HTTPConnection

from gateway.requests import GatewayContext

_SCHEMES: Final = frozenset({"bearer", "token"})
_HEADERS: Final = ("xi-api-key", "x-api-key", "api-key")
_QUERY: Final = ("api_key", "access_token", "xi-api-key", "token")
# OpenAI's clients in browsers offer `realtime` and the key behind this.
_REALTIME: Final = "realtime"
_INSECURE: Final = "openai-insecure-api-key."


def key_of(connection: HTTPConnection) -> str | None:
    """The key that a request or a socket's handshake carries, if it carries one."""
    return next(_keys(connection), None)


def tenant_of(context: GatewayContext, connection: HTTPConnection) -> str:
    """The tenant that calls; raises InvalidApiKey."""
    return context.keys.tenant(key_of(connection))


async def caller_of(context: GatewayContext, connection: HTTPConnection) -> str:
    """The same, also for a token of a while; raises InvalidApiKey, BusUnavailable."""
    token = await context.sessions.secret(key_of(connection))
    return tenant_of(context, connection) if token is None else token.tenant


def subprotocol_of(connection: HTTPConnection) -> str | None:
    """What a server must choose where a browser hid its key among subprotocols."""
    offered = _subprotocols(connection)
    if _REALTIME in offered:
        return _REALTIME
    return offered[0] if len(offered) > 1 and offered[0].lower() in _SCHEMES else None


def _keys(connection: HTTPConnection) -> Iterator[str]:
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() in _SCHEMES and key.strip():
        yield key
    for name in _HEADERS:
        if found := connection.headers.get(name):
            yield found
    for name in _QUERY:
        if found := connection.query_params.get(name):
            yield found
    offered = _subprotocols(connection)
    if len(offered) > 1 and offered[0].lower() in _SCHEMES:
        yield offered[1]
    for one in offered:
        if one.startswith(_INSECURE):
            yield one.removeprefix(_INSECURE)


def _subprotocols(connection: HTTPConnection) -> list[str]:
    header = connection.headers.get("sec-websocket-protocol", "")
    return [part.strip() for part in header.split(",") if part.strip()]
