"""`WS /v1/realtime`: OpenAI's Realtime socket, which speaks what is new as text.

A session has items and, at most one at a time, a response that becomes one of them. Errors are
events, and none of them ends the session: clients die of many, so what can be obeyed is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import structlog
from starlette.websockets import WebSocket

from gateway import errors
from gateway.audio import Pcm, formats
from gateway.errors import Draining, SessionExpired, Unsupported
from gateway.protocols.realtime.configuration import Settings, defaults, merged
from gateway.protocols.realtime.hearing import MOST_MESSAGE_BYTES, joined, restored
from gateway.protocols.realtime.items import ConversationItem, parsed_item
from gateway.protocols.realtime.listening import QuietTimer, UserSound, UserTurn
from gateway.protocols.realtime.record import SessionRecord
from gateway.protocols.realtime.speaking import SpeakingSession, Spoken
from gateway.protocols.session import SessionPhase
from gateway.protocols.shared.context import key_of, tenant_of
from gateway.protocols.shared.sockets import JsonObject, json_of, object_of
from gateway.requests import DEFAULT, GatewayContext, StoredSession
from gateway.requests.sessions import new_session_id
from ttscommon.sound.recordings import MOST_S, BadRecording
from ttscommon.wire.errors import AntiphonError, BadRequest, BusUnavailable, UnknownModel

log_ = structlog.get_logger(__name__)

_TRUE: Final = frozenset({"true", "1"})
# A person may be silent for long, and clients have no message that keeps a session alive.
_IDLE_S: Final = 1800.0


class RealtimeSession(SpeakingSession):
    """`?session=` names a session to go on with, and `?from_sample=` how much of its running
    response its client has. `?resumable=true`: a response outlives its connection.
    """

    longest_s: ClassVar[float] = 3600.0

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        super().__init__(socket, context)
        query = socket.query_params
        self.idle_s = max(self.idle_s, _IDLE_S)
        self._sound = UserSound(self.tell, self._take_turn, self.interrupt)
        self._quiet = QuietTimer(self._sound.hush, self._tire)
        self._doing = asyncio.Lock()
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
                self.config = self._updated(secret.settings)
            self.config["id"] = new_session_id()
        self.config["expires_at"] = int(time.time() + self.longest_s)
        writer = self.tenant, self.config["id"], self.request_id
        self._record = SessionRecord(
            self.context.sessions, writer, self._state, self._taken_over, revision
        )
        await self._configure()

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
            await self._quiet.close()
            await self._record.close(keep=self._kept)

    async def parse(self, frame: Mapping[str, Any]) -> JsonObject:
        given = await json_of(frame, self.settings, MOST_MESSAGE_BYTES)
        return restored(dict(object_of(given)), given)

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

    async def _configure(self) -> None:
        """Take the user's sound as the settings say, and keep it for a model that hears.

        Raises UnknownModel for a caller who may not use the model; whether it can speak now is
        found out later.
        """
        try:
            self.hears = (await self.spec(self.config)).model.says
        except UnknownModel:
            raise
        except AntiphonError as error:
            log_.debug("session.model_unseen", why=error.message)
        self._sound.configure(self.config, hears=self.hears)

    def _updated(self, update: Any) -> Settings:
        """The settings after an update; raises BadRequest.

        Clients that know OpenAI's models alone send one with every update. It stands for nothing
        but the default, and does not replace a model of this deployment.
        """
        served = self.context.catalogue.snapshot.named("talker")
        chosen = self.config["model"]
        if isinstance(update, Mapping) and chosen in served and update.get("model") not in served:
            update = {**update, "model": chosen}
        return merged(self.config, update)

    # What events do

    async def take(self, message: JsonObject) -> None:
        async with self._doing:
            await self._take(message)
        if self.active is not None or self._sound.speaking:
            self._quiet.stop()

    async def _take(self, message: JsonObject) -> None:
        match message.get("type"):
            case "session.update":
                self.config = self._updated(message.get("session"))
                await self._configure()
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

    async def hear(self, item: ConversationItem) -> None:
        every, item.unheard = item.unheard, ()
        if not every:
            return
        if self.hears:
            await self._listen(item, every)
        elif not (item.text or item.transcript):
            told = "the model does not hear: send what was said as input_text"
            raise Unsupported(told, param="item.content")

    async def _listen(self, item: ConversationItem, every: Sequence[str]) -> None:
        form, rate_hz = self._sound.form
        try:
            pcm = await joined(every, form)
            item.duration_s = len(pcm) / rate_hz
            await self._keep(item, pcm, rate_hz)
        except BadRequest as error:
            error.param = "item.content"
            raise

    def finished(self, utterance: Spoken) -> None:
        conversational = utterance is self.active
        super().finished(utterance)
        timeout_s, begun_s = self._sound.timeout_s, utterance.framing.begun_s
        if conversational and timeout_s is not None and begun_s is not None:
            ends_s = begun_s + utterance.speech.delivery.duration_s
            whole = utterance.framing.events.completed
            left_s = max(0.0, ends_s - time.monotonic()) if whole else 0.0
            self._quiet.start(left_s, timeout_s)

    async def _tire(self) -> None:
        """Nothing was said for as long as the client's `idle_timeout_ms`."""
        async with self._doing:
            if self.active is not None or self.phase is not SessionPhase.OPEN:
                return
            try:
                await self._sound.tire()
            except AntiphonError as error:
                self.refused(error, None)

    async def _take_turn(self, turn: UserTurn) -> None:
        """The user has said something: a model that hears answers it."""
        content = [{"type": "input_audio", "transcript": None}]
        item = parsed_item({"id": turn.item_id, "role": "user", "content": content})
        item.duration_s = turn.seconds
        if len(turn.pcm):
            await self._keep_turn(item, turn)
        self.said.commit(item)
        self.changed()
        turns = self.config["audio"]["input"]["turn_detection"] or {}
        asked = turn.found and turns.get("create_response") is not False
        heard = item.sound or (turn.quiet and self.hears)
        if heard and asked and self.active is None:
            await self.respond(None)

    async def _keep_turn(self, item: ConversationItem, turn: UserTurn) -> None:
        """What is silence to the talkers is not stored."""
        try:
            await self._keep(item, turn.pcm, turn.rate_hz)
        except BadRecording as error:
            log_.info("session.unheard", why=error.message)
        except BusUnavailable as error:
            self.refused(error, None)

    async def _keep(self, item: ConversationItem, pcm: Pcm, rate_hz: int) -> None:
        """Store its sound for the talkers; raises BadRecording, BusUnavailable."""
        pcm = pcm[-int(MOST_S * rate_hz) :]
        data = formats.header(rate_hz, len(pcm)) + pcm.astype("<i2").tobytes()
        item.sound = await self.context.store_speech(self.tenant, data)
        item.sound_unix_s = time.time()
