"""The application: routes, sessions, and the one edge where failures become responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

import structlog
from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway import errors
from gateway.admission import ANONYMOUS, Admission, Exchange, KeyRing, KeysWatch, Peers
from gateway.connections import Doors, Places
from gateway.errors import InvalidApiKey, NotFound, SynthesisFailed, TooManyConnections
from gateway.protocols import cartesia, deepgram, elevenlabs, native, openai, playground
from gateway.protocols.shared.credentials import key_of
from gateway.protocols.shared.shapes import shape_of
from gateway.requests import (
    Aliases,
    Catalogue,
    CatalogueTuning,
    GatewayContext,
    Listeners,
    RequestServices,
    ResumeTokens,
    Retention,
    new_request_id,
)
from gateway.settings import GatewaySettings
from ttscommon.bus import Bus
from ttscommon.process import tracing
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.wire.errors import AntiphonError, BadRequest

_EXPOSED: Final = (
    "x-request-id",
    "x-resume-token",
    "x-sample-rate",
    "x-model",
    "x-voice",
    "server-timing",
)

log_ = structlog.get_logger(__name__)


class Session(Protocol):
    """One connected socket, in whatever protocol it speaks."""

    ended: asyncio.Event

    async def run(self) -> None: ...

    def drain(self) -> None:
        """This gateway shuts down: finish what was asked for, and go."""

    def hand_over(self) -> None:
        """This gateway ends now."""


SessionKind: TypeAlias = Callable[[WebSocket, GatewayContext], Session]

SOCKETS: Final[Mapping[str, SessionKind]] = MappingProxyType(
    {
        native.STREAM_PATH: native.Session,
        "/v1/text-to-speech/{voice_id}/stream-input": elevenlabs.StreamInput,
        "/v1/text-to-speech/{voice_id}/multi-stream-input": elevenlabs.MultiStreamInput,
        "/tts/websocket": cartesia.Contexts,
        "/v1/speak": deepgram.Speak,
    }
)


@dataclass
class Gateway:
    """One gateway: the ASGI application and what runs behind it."""

    app: FastAPI
    context: GatewayContext
    exchange: Exchange
    sessions: set[Session] = field(default_factory=set)
    places: Places = field(default_factory=Places)

    async def run(self) -> None:
        """Keep the catalogue fresh, the stages informed of who listens, and the logs short."""
        services = self.context.services
        admission = services.admission
        watch = KeysWatch(services.settings.keys_file, self.context.keys, admission.keys_changed)
        duties = (
            self.context.catalogue,
            services.listeners,
            services.retention,
            self.exchange,
            watch,
        )
        await asyncio.gather(*(duty.run() for duty in duties))

    async def drain(self, grace_s: float | None = None) -> None:
        """Refuse new requests; return when the running ones have ended or were handed over."""
        services = self.context.services
        services.admission.draining = True
        for session in list(self.sessions):
            session.drain()
        services.listeners.give_up_places()
        await self._ended(grace_s)
        for session in list(self.sessions):
            session.hand_over()
        await self._ended()
        services.listeners.give_up_places()
        await services.admission.idle.wait()
        await asyncio.gather(*services.chores, return_exceptions=True)

    async def _ended(self, limit_s: float | None = None) -> None:
        waiting = [asyncio.create_task(session.ended.wait()) for session in self.sessions]
        if waiting:
            await asyncio.wait(waiting, timeout=limit_s)
        for task in waiting:
            task.cancel()


def create_gateway(settings: GatewaySettings, bus: Bus, metrics: GatewayMetrics) -> Gateway:
    """Build a gateway on a connected bus; reads no environment and starts nothing.

    Raises KeysError, AliasesError.
    """
    peers = Peers()
    tuning = CatalogueTuning(hold_s=settings.hold_s)
    catalogue = Catalogue(bus, settings.default_model, tuning, peers)
    keys = KeyRing.load(settings.keys_file)
    if settings.wyoming_tenant is not None:
        keys.require(settings.wyoming_tenant, "ANTIPHON_WYOMING_TENANT")
    metrics.expect(settings.default_model, keys.tenants)
    admission = Admission(settings, catalogue, metrics, keys, peers=peers)
    retention = Retention(bus, settings.keep_logs_s)
    tokens, listeners = ResumeTokens.of(settings), Listeners(bus, heard=retention.forget)
    services = RequestServices(settings, bus, admission, metrics, tokens, listeners, retention)
    aliases = Aliases.load(settings.aliases_file)
    context = GatewayContext(settings, catalogue, keys, services, aliases)
    app = FastAPI(title="Antiphon", version="1", docs_url=None, redoc_url=None)
    app.state.context = context
    gateway = Gateway(app, context, Exchange(bus, admission, retention))
    app.include_router(playground.router)
    for protocol in (openai, elevenlabs, cartesia, deepgram):
        app.include_router(protocol.router)
    app.add_middleware(Doors, settings=settings, refuse=_refuse)
    app.add_middleware(RequestIds)
    _allow_origins(app, settings)
    app.add_exception_handler(AntiphonError, _on_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(Exception, _on_fault)

    for path, kind in SOCKETS.items():
        app.add_api_websocket_route(path, partial(_serve_socket, gateway, kind))
    return gateway


async def _serve_socket(gateway: Gateway, kind: SessionKind, socket: WebSocket) -> None:
    keys, tenant = gateway.context.keys, _holder(gateway, socket)
    most = gateway.context.settings.max_sockets_per_key
    try:
        gateway.places.take(tenant, keys.most_sockets(tenant, most), "this key")
    except TooManyConnections as error:
        await socket.send_denial_response(_response(socket, error, errors.edge(error).status))
        return
    try:
        await _serve_session(gateway, kind, socket)
    finally:
        gateway.places.leave(tenant)


def _holder(gateway: Gateway, socket: WebSocket) -> str:
    """Whose socket it is. Those without a key, which may come in a message, count as one key's."""
    try:
        return gateway.context.keys.tenant(key_of(socket))
    except InvalidApiKey:
        return ANONYMOUS


async def _serve_session(gateway: Gateway, kind: SessionKind, socket: WebSocket) -> None:
    try:
        session = kind(socket, gateway.context)
    except InvalidApiKey as error:
        await socket.send_denial_response(_response(socket, error, errors.edge(error).status))
        return
    gateway.sessions.add(session)
    if gateway.context.services.admission.draining:
        session.drain()
    try:
        await session.run()
    finally:
        session.ended.set()
        gateway.sessions.discard(session)


def _allow_origins(app: FastAPI, settings: GatewaySettings) -> None:
    """Let web pages of other origins call this gateway, if it is configured so."""
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=[*_EXPOSED],
        )


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


async def _refuse(
    connection: HTTPConnection, error: AntiphonError, receive: Receive, send: Send
) -> None:
    """Answer a request or a handshake that reaches no protocol."""
    response = _response(connection, error, errors.edge(error).status)
    if connection.scope["type"] == "websocket":
        await WebSocket(connection.scope, receive, send).send_denial_response(response)
    else:
        await response(connection.scope, receive, send)


async def _on_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, AntiphonError)
    return _response(request, error, errors.edge(error).status)


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    kind = NotFound if error.status_code == 404 else BadRequest
    failure = kind(f"{request.method} {request.url.path}: {error.detail}")
    return _response(request, failure, error.status_code, dict(error.headers or {}))


async def _on_validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = str(first["loc"][-1])
    return _response(request, BadRequest(f"'{param}': {first['msg']}", param=param), 400)


async def _on_fault(request: Request, error: Exception) -> JSONResponse:
    log_.error("request.fault", path=request.url.path, exc_info=error)
    return _response(request, SynthesisFailed("internal error"), 500)


def _response(
    request: HTTPConnection, error: AntiphonError, status: int, extra: dict[str, Any] | None = None
) -> JSONResponse:
    headers = {**errors.headers(error), **(extra or {})}
    request_id = getattr(request.state, "request_id", "")
    return JSONResponse(dict(shape_of(request)(error, request_id)), status, headers)
