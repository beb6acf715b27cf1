"""The application: what it is made of, its sockets, and how it runs and ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from fastapi import FastAPI, WebSocket
from starlette.middleware.cors import CORSMiddleware

from gateway.admission import Admission, Exchange, Peers
from gateway.audio.watermark import Perth
from gateway.books import FolderParts, JobRunner, JobStore, StoredParts
from gateway.connections import ConnectionCounts, Doors
from gateway.edge import RequestIds, handle_failures, refuse, response_of
from gateway.errors import InvalidApiKey, TooManyConnections
from gateway.keys import ANONYMOUS, KeyRing, KeysWatch
from gateway.protocols import cartesia, deepgram, elevenlabs, native, openai, playground, realtime
from gateway.protocols.shared.context import caller_of
from gateway.protocols.shared.sockets import SocketSession
from gateway.requests import (
    Aliases,
    Catalogue,
    CatalogueTuning,
    GatewayContext,
    Listeners,
    Lookups,
    RequestServices,
    ResumeTokens,
    Retention,
    UsageCounter,
)
from gateway.settings import GatewaySettings
from ttscommon.bus import Bus
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.process.startup import VERSION
from ttscommon.wire.errors import AntiphonError, BusUnavailable

AnySession: TypeAlias = SocketSession[Any, Any]

KINDS: Final[Mapping[str, Callable[[WebSocket, GatewayContext], AnySession]]] = MappingProxyType(
    {
        native.STREAM_PATH: native.NativeSession,
        "/v1/text-to-speech/{voice_id}/stream-input": elevenlabs.StreamInput,
        "/v1/text-to-speech/{voice_id}/multi-stream-input": elevenlabs.MultiStreamInput,
        "/tts/websocket": cartesia.CartesiaSession,
        "/v1/speak": deepgram.DeepgramSession,
        "/v2/speak": deepgram.FluxSession,
        "/v1/text-to-dialogue/stream-input": elevenlabs.DialogueStream,
        "/v1/text-to-dialogue/multi-stream-input": elevenlabs.DialogueInput,
        "/v1/realtime": realtime.RealtimeSession,
    }
)

# Stages that are told to stop are told within it, if the broker is there.
_CHORES_S: Final = 5.0

LARGE: Final[Mapping[str, int]] = MappingProxyType({"/v1/realtime": realtime.MOST_MESSAGE_BYTES})
"""Bytes of a message where more are taken than elsewhere."""


class Sockets:
    """Of one gateway. `sessions`: its connected clients; `places`: what each key holds."""

    def __init__(self, context: GatewayContext) -> None:
        self.sessions: set[AnySession] = set()
        self._context = context
        self.places = ConnectionCounts()

    def route(self, app: FastAPI) -> None:
        """Serve every protocol at its path."""
        for path, kind in KINDS.items():
            app.add_api_websocket_route(path, partial(self._serve, kind))

    async def ended(self, limit_s: float | None = None) -> None:
        """Return when the present sessions have ended, or the time has."""
        waiting = [asyncio.create_task(session.ended.wait()) for session in self.sessions]
        if waiting:
            await asyncio.wait(waiting, timeout=limit_s)
        for task in waiting:
            task.cancel()

    async def _serve(
        self, kind: Callable[[WebSocket, GatewayContext], AnySession], socket: WebSocket
    ) -> None:
        keys, tenant = self._context.keys, await self._holder(socket)
        most = keys.most_sockets(tenant, self._context.settings.max_sockets_per_key)
        try:
            self.places.take(tenant, most, "this key")
        except TooManyConnections as error:
            await _deny(socket, error)
            return
        try:
            await self._serve_session(kind, socket)
        finally:
            self.places.leave(tenant)

    async def _holder(self, socket: WebSocket) -> str:
        """Whose it is. Those without a key, which may come in a message, count as one key's."""
        try:
            return await caller_of(self._context, socket)
        except (InvalidApiKey, BusUnavailable):
            return ANONYMOUS

    async def _serve_session(
        self, kind: Callable[[WebSocket, GatewayContext], AnySession], socket: WebSocket
    ) -> None:
        try:
            session = kind(socket, self._context)
        except InvalidApiKey as error:
            await _deny(socket, error)
            return
        self.sessions.add(session)
        if self._context.services.admission.draining:
            session.drain()
        try:
            await session.run()
        except AntiphonError as error:
            await _deny(socket, error)
        finally:
            session.ended.set()
            self.sessions.discard(session)


async def _deny(socket: WebSocket, error: AntiphonError) -> None:
    request_id = getattr(socket.state, "request_id", None)
    named = {} if request_id is None else {"x-request-id": request_id}
    await socket.send_denial_response(response_of(socket, error, named))


_EXPOSED: Final = (
    "x-request-id",
    "request-id",
    "x-resume-token",
    "x-sample-rate",
    "x-model",
    "x-voice",
    "x-provenance",
    "server-timing",
)


@dataclass
class Gateway:
    """One gateway: the ASGI application and what runs behind it."""

    app: FastAPI
    context: GatewayContext
    exchange: Exchange
    sockets: Sockets
    job_runner: JobRunner

    async def run(self) -> None:
        """Keep the catalogue fresh, the stages informed of who listens, and the logs short."""
        services = self.context.services
        admission = services.admission
        watch = KeysWatch(services.settings.keys_file, self.context.keys, admission.keys_changed)
        duties = (
            self.context.catalogue,
            services.listeners,
            services.retention,
            services.usage,
            self.exchange,
            admission,
            self.job_runner,
            watch,
        )
        await asyncio.gather(*(duty.run() for duty in duties))

    async def drain(self, grace_s: float | None = None) -> None:
        """Refuse new requests; return when the running ones have ended or were handed over."""
        services = self.context.services
        services.admission.draining = True
        for session in list(self.sockets.sessions):
            session.drain()
        services.listeners.give_up_places()
        await self.job_runner.close()
        await self.sockets.ended(grace_s)
        for session in list(self.sockets.sessions):
            session.hand_over()
        await self.sockets.ended()
        services.listeners.give_up_places()
        await services.admission.idle.wait()
        await services.chores.finish(_CHORES_S)
        with contextlib.suppress(BusUnavailable):  # the log says what is lost
            await services.usage.store()


def create_gateway(settings: GatewaySettings, bus: Bus, metrics: GatewayMetrics) -> Gateway:
    """Build a gateway on a connected bus; reads no environment and starts nothing.

    Raises KeysError, AliasesError, NoWatermark.
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
    watermark = None if settings.watermark is None else Perth.load(settings.watermark)
    services = RequestServices(
        *(settings, bus, catalogue, admission, metrics, tokens, listeners),
        *(retention, UsageCounter(bus), watermark),
    )
    aliases, lookups = Aliases.load(settings.aliases_file), Lookups(bus, catalogue)
    context = GatewayContext(settings, catalogue, keys, services, aliases, lookups)
    app = FastAPI(title="Antiphon", version=VERSION, docs_url=None, redoc_url=None)
    app.openapi = partial(_described, app)  # type: ignore[method-assign]
    app.state.context = context
    sockets = Sockets(context)
    folder = settings.jobs_folder
    job_store = JobStore(bus, StoredParts(bus) if folder is None else FolderParts(folder))
    app.state.job_runner = job_runner = JobRunner(context, job_store)
    gateway = Gateway(app, context, Exchange(bus, admission, retention), sockets, job_runner)
    for one in (openai, realtime, elevenlabs, cartesia, deepgram, playground):
        app.include_router(one.router)
    app.add_middleware(Doors, settings=settings, refuse=refuse)
    app.add_middleware(RequestIds)
    _allow_origins(app, settings)
    handle_failures(app)
    sockets.route(app)
    _look_up(app)
    return gateway


def _look_up(app: FastAPI) -> None:
    """Have routes made ready now. The first look at any would do it, and its client would wait for
    as long as for a first sound.
    """
    nothing = {"type": "http", "method": "GET", "path": "", "root_path": "", "app": app}
    for route in app.routes:
        route.matches(nothing)


def _described(app: FastAPI) -> dict[str, Any]:
    """What /openapi.json answers. Nothing else of a gateway needs what it is made of."""
    from gateway.description import openapi

    if app.openapi_schema is None:
        app.openapi_schema = openapi(app)
    return app.openapi_schema


def _allow_origins(app: FastAPI, settings: GatewaySettings) -> None:
    """Let web pages of other origins call this gateway, if it is configured so."""
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=[*_EXPOSED],
        )
