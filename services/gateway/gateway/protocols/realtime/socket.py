"""`WS /v1/realtime`: OpenAI's Realtime socket, which speaks what is new as text.

A session has items and, at most one at a time, a response that becomes one of them. Errors are
events, and none of them ends the session: clients die of many, so what can be obeyed is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from starlette.websockets import WebSocket

from gateway import errors
from gateway.errors import Draining, SessionExpired
from gateway.protocols.realtime.configuration import defaults, merged
from gateway.protocols.realtime.items import ConversationItem, parsed_item
from gateway.protocols.realtime.listening import UserSound
from gateway.protocols.realtime.record import SessionRecord
from gateway.protocols.realtime.speaking import SpeakingSession, Spoken
from gateway.protocols.shared.credentials import key_of, tenant_of
from gateway.protocols.shared.shapes import ErrorShape, openai_shape
from gateway.protocols.shared.sockets import JsonObject, json_of, object_of
from gateway.requests import DEFAULT, GatewayContext, StoredSession
from gateway.requests.sessions import new_session_id
from ttscommon.wire.errors import AntiphonError, BadRequest, UnknownModel

_TRUE: Final = frozenset({"true", "1"})
# A person may be silent for long, and clients have no message that keeps a session alive.
_IDLE_S: Final = 1800.0


class RealtimeSession(SpeakingSession):
    """`?session=` names a session to go on with, and `?from_sample=` how much of its running
    response its client has. `?resumable=true`: a response outlives its connection.
    """

    shape: ClassVar[ErrorShape] = staticmethod(openai_shape)
    longest_s: ClassVar[float] = 3600.0

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        super().__init__(socket, context)
        query = socket.query_params
        self.idle_s = max(self.idle_s, _IDLE_S)
        self._sound = UserSound(self.tell, self._take_turn, self.interrupt)
        self.resumable = query.get("resumable", "").lower() in _TRUE or "session" in query
        self._kept = self._expired = False

    # The connection

    async def open(self) -> None:
        query = self.socket.query_params
        secret = await self.context.sessions.secret(key_of(self.socket))
        self.tenant = tenant_of(self.context, self.socket) if secret is None else secret.tenant
        revision = 0
        if (name := query.get("session")) is not None:
            revision = await self._restore(name)
        else:
            self.config = defaults(query.get("model", DEFAULT))
            if secret is not None:
                self.config = merged(self.config, secret.settings)
            self.config["id"] = new_session_id()
        self.config["expires_at"] = int(time.time() + self.longest_s)
        writer = self.tenant, self.config["id"], self.request_id
        self._record = SessionRecord(
            self.context.sessions, writer, self._state, self._taken_over, revision
        )
        await self._require_model()
        self._sound.configure(self.config)

    async def accept(self) -> None:
        await super().accept()
        self.tell({"type": "session.created", "session": self.config})
        self.said.tell_all()
        if self.running is not None:
            await self.rejoin(self.running)

    async def serve(self) -> None:
        timer = asyncio.get_running_loop().call_later(self.longest_s, self._expire)
        if self.said.items.items or self.running:
            self.changed()
        try:
            await super().serve()
        finally:
            timer.cancel()
            await self._record.close(keep=self._kept)

    async def parse(self, frame: Mapping[str, Any]) -> JsonObject:
        given = await json_of(frame, self.settings)
        message = dict(object_of(given))
        if isinstance(audio := message.get("audio"), str):
            message["audio"] = given.restore(audio)
        return message

    def changed(self) -> None:
        self._record.touch()

    def fatal(self, error: AntiphonError) -> bool:
        return False

    def refused(self, error: AntiphonError, message: JsonObject | None) -> None:
        given = (message or {}).get("event_id")
        told = {**errors.body(error), "event_id": given if isinstance(given, str) else None}
        self.tell({"type": "error", "error": told})

    def abandoned(self, utterance: Spoken, error: AntiphonError) -> None:
        utterance.framing.failed(utterance.speech, error)

    def detach(self) -> None:
        super().detach()
        self._kept = True
        if not self.resumable:
            for spoken in list(self.utterances):
                spoken.framing.failed(spoken.speech, Draining("the connection ended; speak again"))
            self.running = None
        if self.said.items.items:
            self.changed()

    def emptied(self) -> None:
        if self._expired:
            self.fail(SessionExpired(f"a session ends after {self.longest_s / 60:g} minutes"))
        else:
            super().emptied()

    def _taken_over(self, error: AntiphonError) -> None:
        """Another connection goes on with the session, and with what it speaks."""
        for spoken in self.utterances:
            spoken.speech.keep()
        self.fail(error)

    def _expire(self) -> None:
        self._expired = True
        self.drain()

    async def _restore(self, name: str) -> int:
        """Go on with a stored session; returns the revision of its record. Raises NotFound."""
        stored, revision = await self.context.sessions.take(self.tenant, name, self.request_id)
        self.config, self.running = stored.settings, stored.running
        for item in stored.items:
            self.said.items.add(ConversationItem.restored(item))
        return revision

    def _state(self, writer: str) -> StoredSession:
        """What another connection needs to go on. What is spoken is no item yet."""
        running = self.running
        items = [i for i in self.said.items if running is None or i.id != running.item_id]
        return StoredSession(writer, self.config, [item.stored() for item in items], running)

    async def _require_model(self) -> None:
        """Refuse who may not use the model; whether it can speak now is found out later."""
        try:
            await self.spec(self.config)
        except UnknownModel:
            raise
        except AntiphonError:
            return

    # What events do

    async def take(self, message: JsonObject) -> None:
        match message.get("type"):
            case "session.update":
                self.config = merged(self.config, message.get("session"))
                self._sound.configure(self.config)
                self.tell({"type": "session.updated", "session": self.config})
            case "input_audio_buffer.append":
                await self._sound.append(message.get("audio"))
                return
            case "input_audio_buffer.commit":
                await self._sound.commit()
            case "input_audio_buffer.clear":
                self._sound.clear()
            case "response.create":
                await self.respond(message.get("response"))
            case "response.cancel":
                await self.cancel(message.get("response_id"))
            case "output_audio_buffer.clear":
                return  # of WebRTC, which has a buffer here
            case str(kind) if kind.startswith("conversation.item."):
                await self.said.take(kind.removeprefix("conversation.item."), message)
            case other:
                raise BadRequest(f"unknown event type '{str(other)[:64]}'", param="type")
        if self.said.items.items:
            self.changed()

    async def _take_turn(self, name: str, seconds: float) -> None:
        """The user has said something, which no model here hears."""
        content = [{"type": "input_audio", "transcript": None}]
        item = parsed_item({"id": name, "role": "user", "content": content})
        item.duration_s = seconds
        self.said.commit(item)
        self.changed()
