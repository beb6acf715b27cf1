"""The sockets of a gateway: which protocol is where, who holds them, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from fastapi import FastAPI, WebSocket

from gateway import errors
from gateway.connections import ConnectionCounts
from gateway.edge import response_of
from gateway.errors import InvalidApiKey, TooManyConnections
from gateway.keys import ANONYMOUS
from gateway.protocols import cartesia, deepgram, elevenlabs, native, realtime
from gateway.protocols.shared.credentials import key_of
from gateway.protocols.shared.sockets import SocketSession
from gateway.requests import GatewayContext
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
        key = key_of(socket)
        try:
            secret = await self._context.sessions.secret(key)
            return self._context.keys.tenant(key) if secret is None else secret.tenant
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
        finally:
            session.ended.set()
            self.sessions.discard(session)


async def _deny(socket: WebSocket, error: AntiphonError) -> None:
    await socket.send_denial_response(response_of(socket, error, errors.edge(error).status))
