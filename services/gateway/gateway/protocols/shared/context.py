"""The context of a route: the gateway's, the caller's key, and the shape of its errors."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias

from fastapi import Depends
from starlette.requests import ClientDisconnect, HTTPConnection, Request

from gateway import errors
from gateway.books import JobRunner
from gateway.errors import MessageTooBig, WrongContentType
from gateway.protocols.shared.bounded_json import Gathering, Json
from gateway.requests import GatewayContext
from gateway.settings import GatewaySettings
from ttscommon.wire.errors import AntiphonError, BadRequest


# FastAPI has a thread call what is no coroutine.
async def context_of(connection: HTTPConnection) -> GatewayContext:
    context: GatewayContext = connection.app.state.context
    return context


_MAX_WAIT: Final = "x-max-wait-s"
_WAITS: Final = b"max_wait_s"
_LONGEST_WAIT_S: Final = 600.0

Context: TypeAlias = Annotated[GatewayContext, Depends(context_of)]


async def _runner_of(connection: HTTPConnection) -> JobRunner:
    job_runner: JobRunner = connection.app.state.job_runner
    return job_runner


Runner: TypeAlias = Annotated[JobRunner, Depends(_runner_of)]


async def chunks(request: Request, limit: int) -> AsyncIterator[bytes]:
    """The body as it comes; raises MessageTooBig, and BadRequest if it is cut off."""
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise MessageTooBig(f"the body is over {limit} bytes")
            yield part
    except ClientDisconnect as gone:
        raise BadRequest("the connection ended within the body") from gone


async def read_json(
    request: Request,
    settings: GatewaySettings,
    limit: int | None = None,
    gathering: Gathering | None = None,
) -> Json:
    """A body that says it is JSON, ready to be parsed. gathering: for what is large in other ways.

    A web page can make any browser post text and forms wherever it likes, but not JSON. Raises
    WrongContentType, MessageTooBig, BadRequest, and what `BoundedJson.feed` raises.
    """
    if not (settings.any_content_type or _is_json(request.headers.get("content-type", ""))):
        raise WrongContentType("the body must be JSON: send 'Content-Type: application/json'")
    gathering = gathering or Gathering()
    async for chunk in chunks(request, limit or settings.max_body_bytes):
        await gathering.add(chunk)
    return gathering.json()


async def read_speech(request: Request, context: GatewayContext, tenant: str) -> Json:
    """A body whose text is to be spoken now. Where no model has room for a request it is refused
    before its body is parsed, unless the body may say that it would wait for longer.

    Raises as `read_json` and `Admission.refuse_early`, and InvalidApiKey.
    """
    body = await read_json(request, context.settings)
    if _WAITS not in body.data:
        await context.services.admission.refuse_early(tenant, max_wait_s(request))
    return body


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


def max_wait_s(connection: HTTPConnection) -> float:
    """How long a request of this connection would wait for room; raises BadRequest."""
    given = connection.headers.get(_MAX_WAIT, connection.query_params.get("max_wait_s", "0"))
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _LONGEST_WAIT_S:
        raise BadRequest(
            f"max_wait_s is a number of seconds from 0 to {_LONGEST_WAIT_S:g}", param="max_wait_s"
        )
    return seconds


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


ErrorShape: TypeAlias = Callable[[AntiphonError, str], Mapping[str, Any]]
"""An error and the request's id -> the body that tells it."""


def openai_shape(error: AntiphonError, request_id: str) -> Mapping[str, Any]:
    """OpenAI's, and Antiphon's own."""
    return {"error": errors.body(error)}
