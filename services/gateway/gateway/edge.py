"""The one edge where failures become responses, and every request gets its name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import structlog
from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway import errors
from gateway.errors import NotFound, SynthesisFailed
from gateway.protocols import cartesia, deepgram, elevenlabs
from gateway.protocols.shared.context import ErrorShape, openai_shape
from gateway.requests import new_request_id
from ttscommon.process import tracing
from ttscommon.wire.errors import AntiphonError, BadRequest

_PATHS = (
    (("/v1/text-to-", "/v1/voices", "/v2/voices", "/v1/user"), elevenlabs.error_shape),
    (("/tts", "/voices", "/access-token"), cartesia.error_shape),
    (("/v1/speak", "/v2/speak"), deepgram.error_shape),
)
_HEADERS = (
    ("xi-api-key", "", elevenlabs.error_shape),
    ("cartesia-version", "", cartesia.error_shape),
    ("authorization", "token ", deepgram.error_shape),
)
_METHODS: Final = ("GET", "HEAD", "POST", "DELETE")

log_ = structlog.get_logger(__name__)


def handle_failures(app: FastAPI) -> None:
    """Have everything that fails in a route answered in its protocol's shape."""
    app.add_exception_handler(AntiphonError, _on_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(Exception, _on_fault)


class RequestIds:
    """Names every HTTP request, also on the bus, and takes part in its client's trace."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with tracing.within(_trace_headers(scope)):
            await self._name(scope, receive, send)

    async def _name(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = new_request_id()
        scope.setdefault("state", {})["request_id"] = request_id

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        await self._app(scope, receive, named)


def _trace_headers(scope: Scope) -> dict[str, str]:
    """The trace that a client asks us to take part in."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope.get("headers", ())
        if name in (b"traceparent", b"tracestate")
    }


async def refuse(
    connection: HTTPConnection, error: AntiphonError, receive: Receive, send: Send
) -> None:
    """Answer a request or a handshake that reaches no protocol."""
    response = response_of(connection, error)
    if connection.scope["type"] == "websocket":
        await WebSocket(connection.scope, receive, send).send_denial_response(response)
    else:
        await response(connection.scope, receive, send)


async def _on_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, AntiphonError)
    return response_of(request, error)


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    kind = NotFound if error.status_code == 404 else BadRequest
    failure = kind(f"{request.method} {request.url.path}: {error.detail}")
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if error.status_code == 405:
        headers["allow"] = ", ".join(_allowed(request))
    return response_of(request, failure, headers, error.status_code)


def _allowed(request: Request) -> list[str]:
    """Methods of all routes of a path; the router tells those of the first."""
    routes = request.app.routes
    return [
        method
        for method in _METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes
        )
    ]


async def _on_validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = str(first["loc"][-1])
    return response_of(request, BadRequest(f"'{param}': {first['msg']}", param=param))


async def _on_fault(request: Request, error: Exception) -> JSONResponse:
    log_.error("request.fault", path=request.url.path, exc_info=error)
    return response_of(request, SynthesisFailed("internal error"))


def response_of(
    request: HTTPConnection,
    error: AntiphonError,
    extra: Mapping[str, str] = MappingProxyType({}),
    status: int | None = None,
) -> JSONResponse:
    """An error as its protocol tells it; `status` in place of its own."""
    told = shape_of(request)(error, getattr(request.state, "request_id", ""))
    headers = {**errors.headers(error), **extra}
    return JSONResponse(dict(told), status or errors.edge(error).status, headers)


def shape_of(connection: HTTPConnection) -> ErrorShape:
    """The shape that its path or its headers tell."""
    path = connection.scope.get("path", "")
    for starts, shape in _PATHS:
        if path.startswith(starts):
            return shape
    for header, start, shape in _HEADERS:
        value = connection.headers.get(header)
        if value is not None and value.lower().startswith(start):
            return shape
    return openai_shape
