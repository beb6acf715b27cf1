"""Antiphon's own socket: text comes in while audio goes out; see docs/protocol.md.

The session's own requests are spoken one after another, contexts beside them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from weakref import WeakMethod

from starlette.websockets import WebSocket

from gateway.errors import Draining, WrongOrder
from gateway.protocols.native.framing import (
    FORMAT,
    ContextFraming,
    NativeFraming,
    OwnFraming,
    Producers,
    ends_session,
)
from gateway.protocols.native.messages import (
    CancelSpeech,
    ClientMessage,
    InputAttach,
    InputDone,
    InputFlush,
    InputMessage,
    InputPause,
    InputPhones,
    InputRows,
    InputSpeech,
    InputText,
    OfContext,
    SessionClose,
    SessionConfig,
    SessionResume,
    control,
    error_message,
    parse_message,
    write,
)
from gateway.protocols.session import SessionPhase
from gateway.protocols.shared.context import subprotocol_of, tenant_of
from gateway.protocols.shared.sockets import SocketSession, json_of
from gateway.protocols.utterance import Rest, StreamedText
from gateway.requests import GatewayContext, SpeechSpec
from ttscommon.wire.errors import AntiphonError, TextTooLong

PROTOCOL: Final = 1

Spoken = StreamedText[NativeFraming]


class NativeSession(SocketSession[ClientMessage, NativeFraming]):
    """Requests that name no context take turns.

    `_typed` is the one of them whose text is coming in. `_ignoring`: the text that is coming in is
    of a request that is over already, up to its `input.done`.
    """

    denies: ClassVar[bool] = False

    def __init__(self, socket: WebSocket, context: GatewayContext) -> None:
        """Raises InvalidApiKey, before the upgrade."""
        super().__init__(socket, context)
        self._tenant = tenant_of(context, socket)
        self._spec: SpeechSpec | None = None
        self._typed: Spoken | None = None
        self._ignoring = False
        self._requests = 0
        self._samples = 0
        self._duration_s = 0.0
        self._producers = Producers(context, self._tenant, WeakMethod(self.put))

    async def serve(self) -> None:
        try:
            await super().serve()
        finally:
            await self._producers.close()

    async def accept(self) -> None:
        await self.socket.accept(subprotocol_of(self.socket))

    async def parse(self, frame: Mapping[str, Any]) -> ClientMessage:
        return parse_message(await json_of(frame, self.settings))

    # What messages do

    async def take(self, message: ClientMessage) -> None:
        if self.phase is SessionPhase.CLOSING:
            raise WrongOrder("the session is closing")
        if isinstance(message, OfContext) and message.context_id is not None:
            await self._take_for_context(message, message.context_id)
            return
        match message:
            case SessionConfig():
                await self._configure(message)
            case SessionResume():
                self._resume(Rest(message.request_id, message.from_sample, message.token))
            case InputText() | InputFlush() | InputPhones() | InputPause():
                await self._take_text(message)
            case InputSpeech(audio=audio):
                await self._take_speech(audio)
            case InputRows():
                self._take_rows(message)
            case InputAttach(request_id=request_id, token=token):
                self._producers.attach(request_id, self._row_width(), token)
            case InputDone(request_id=str() as request_id):
                self._producers.finish(request_id)
            case InputDone():
                self._end_text()
            case CancelSpeech():
                await self._cancel_own(message.request_id, message.played_s)
            case SessionClose():
                self._close()

    async def _configure(self, config: SessionConfig) -> None:
        if self._typed is not None:
            raise WrongOrder("session.config must come between requests, not inside one")
        config.refuse_unsupported()
        first = self._spec is None
        self._spec = await self.context.spec(
            self._tenant,
            model=config.model,
            voice=config.voice,
            sample_rate=config.sample_rate,
            seed=config.seed,
            resumable=config.resumable,
            speed=config.speed,
            options=config.options,
            lenient=False,
            max_wait_s=config.max_wait_s,
        )
        self._tell_configuration(self._spec, first=first)

    def _tell_configuration(self, spec: SpeechSpec, *, first: bool) -> None:
        settings = self.settings
        self._say(
            "session.created" if first else "session.updated",
            session_id=secrets.token_urlsafe(8) if first else None,
            protocol=PROTOCOL,
            model=spec.model.name,
            voice=spec.voice.id,
            format=FORMAT,
            sample_rate=spec.sample_rate,
            channels=1,
            limits={
                "max_text_chars": settings.max_text_chars,
                "max_message_bytes": settings.max_message_bytes,
                "max_queued_requests": settings.max_queued_requests,
                "max_contexts": settings.max_contexts,
                "idle_timeout_s": settings.idle_timeout_s,
            },
            **({"warning": spec.warning} if spec.warning else {}),
        )

    def _resume(self, rest: Rest) -> None:
        if self._spec is None or self._typed is not None:
            raise WrongOrder("session.resume must follow session.config, between requests")
        self._enqueue(self._spec, rest)

    async def _take_text(self, message: InputMessage) -> None:
        if self._spec is None:
            raise WrongOrder("input.text must follow session.config")
        if self._ignoring:
            return
        if self._typed is None:
            self._ignoring = True  # should it be refused
            self._typed = self._enqueue(self._spec)
            self._ignoring = False
        typed = self._typed
        if typed.request_id in self._producers:
            raise WrongOrder("a request is text or rows, not both")
        try:
            write(typed.text, message)
        except TextTooLong as error:
            self._ignore_rest()
            # If it is not its turn yet, it says so then.
            if self.turns.spoken is typed and await self.stop(typed):
                self.over(typed, error)

    async def _take_speech(self, audio: str) -> None:
        """It opens a request, whose text may follow."""
        if self._ignoring:
            return
        if self._spec is None or self._typed is not None:
            raise WrongOrder("input.speech must follow session.config, before a request's text")
        self._ignoring = True  # should it be refused
        self._typed = self._enqueue(await self.context.spoken_to(self._spec, audio))
        self._ignoring = False

    def _row_width(self) -> int:
        if self._spec is None:
            raise WrongOrder("rows must follow session.config")
        return self._spec.model.row_width

    def _take_rows(self, message: InputRows) -> None:
        """Of a request that is named, or of the session's own, which they open."""
        width = self._row_width()
        if message.request_id is not None:
            self._producers.add(message.request_id, message)
            return
        if self._ignoring:
            return
        if self._typed is None:
            assert self._spec is not None
            opened = self._enqueue(self._spec, rows=True)
            token = opened.speech.resume_token
            if message.rows is None:
                self._producers.elsewhere(opened.request_id, token)
                return
            self._typed = opened
            self._producers.open(opened.request_id, width, token)
        if self._typed.request_id not in self._producers:
            raise WrongOrder("a request is text or rows, not both")
        self._producers.add(self._typed.request_id, message)

    def _end_text(self) -> None:
        if self._typed is None and not self._ignoring:
            raise WrongOrder("input.done must follow input.text")
        if self._typed is not None:
            self._typed.text.finish()
            if self._typed.request_id in self._producers:
                self._producers.finish(self._typed.request_id)
        self._typed, self._ignoring = None, False

    def _close(self) -> None:
        for utterance in self.utterances:
            if utterance.name is not None or utterance is self._typed:
                utterance.text.finish()
        self._typed, self._ignoring = None, False
        self.close()

    async def _take_for_context(self, message: OfContext, name: str) -> None:
        """One message of a context; its first text opens it, again once its text is complete."""
        if self._spec is None:
            raise WrongOrder("contexts must follow session.config")
        known = self.contexts.get(name)
        match message:
            case InputText() | InputFlush() | InputPhones() | InputPause():
                if known is None or known.text.complete:
                    known = self._open(self._spec, name)
                write(known.text, message)
            case InputSpeech(audio=audio):
                if known is not None and not known.text.complete:
                    raise WrongOrder("input.speech must come before a context's text")
                self._open(await self.context.spoken_to(self._spec, audio), name)
            case SessionResume(request_id=request_id, from_sample=sample, token=token):
                if known is not None and not known.text.complete:
                    raise WrongOrder("session.resume must not name a context that takes text")
                self._open(self._spec, name, Rest(request_id, sample, token))
            case InputDone():
                if known is None:
                    raise WrongOrder("input.done must follow a context's text")
                known.text.finish()
            case CancelSpeech():
                if known is not None:
                    await self._cancel(known, message.played_s)

    # What becomes of requests

    def _enqueue(self, spec: SpeechSpec, rest: Rest | None = None, *, rows: bool = False) -> Spoken:
        """A request of the session's own, which is spoken when those before have ended."""
        if len(self.turns) > self.settings.max_queued_requests:
            raise WrongOrder("too many requests wait already; this one is ignored")
        framing = OwnFraming(self.outbox.put, rest)
        utterance = self.begin(spec, framing, rest=rest, rows=rows)
        framing.text = None if rest else utterance.text
        self._requests += 1
        self.enqueue(utterance)
        return utterance

    def _open(self, spec: SpeechSpec, name: str, rest: Rest | None = None) -> Spoken:
        self.require_room()
        framing = ContextFraming(self.outbox.put, name, rest)
        utterance = self.begin(spec, framing, name=name, rest=rest)
        framing.text = None if rest else utterance.text
        framing.start(utterance.speech)
        self.start(utterance)
        return utterance

    def start(self, utterance: Spoken) -> None:
        """Or say that it was cancelled while it waited."""
        if utterance.cancelled:
            self._cancelled(utterance, 0.0)
        else:
            super().start(utterance)

    async def _cancel_own(self, request_id: str | None, played_s: float | None) -> None:
        """End one, or all. Each says so itself, in `audio.done`, when it is its turn."""
        chosen = [u for u in self.turns if request_id in (None, u.request_id)]
        if self._typed is not None and request_id in (None, self._typed.request_id):
            self._ignore_rest()
        for utterance in chosen:
            utterance.cancelled = True
        if chosen and chosen[0] is self.turns.spoken:
            await self._cancel(chosen[0], played_s)

    async def _cancel(self, utterance: Spoken, played_s: float | None) -> None:
        delivery = utterance.speech.delivery
        heard_s = delivery.played_s() if played_s is None else played_s
        if await self.stop(utterance):
            self._cancelled(utterance, min(heard_s, delivery.duration_s))

    def _cancelled(self, utterance: Spoken, played_s: float) -> None:
        self.put(utterance.framing.done(utterance.speech, "cancelled", played_s))
        self.finished(utterance)

    def over(self, utterance: Spoken, error: AntiphonError | None) -> None:
        if utterance.name is None and error is not None:
            if utterance is self._typed:
                self._ignore_rest()
            if ends_session(error):
                self.turns.clear()
                self.fail(error)
        super().over(utterance, error)

    def finished(self, utterance: Spoken) -> None:
        if utterance.name is None:
            self._samples += utterance.speech.delivery.samples
            self._duration_s += utterance.speech.delivery.duration_s
        self._producers.drop(utterance.request_id)
        super().finished(utterance)

    def _ignore_rest(self) -> None:
        self._typed, self._ignoring = None, True

    # How a session ends

    def refused(self, error: AntiphonError, message: ClientMessage | None) -> None:
        self.put(error_message(error))

    def failed(self, error: AntiphonError) -> None:
        spoken = self.turns.spoken
        self.put(error_message(error, spoken.request_id if spoken else None))

    def abandoned(self, utterance: Spoken, error: AntiphonError) -> None:
        if utterance.name is not None:
            self.put(utterance.framing.failed(utterance.speech, error))

    def emptied(self) -> None:
        if self.phase is SessionPhase.DRAINING:
            self.fail(Draining("this gateway is shutting down; connect again"))
            return
        duration_s = round(self._duration_s, 6)
        self._say(
            "session.done", requests=self._requests, samples=self._samples, duration_s=duration_s
        )
        self.leave()

    def handed_over(self) -> None:
        self.fail(Draining("this gateway is shutting down; connect again and resume"))

    def _say(self, kind: str, **fields: Any) -> None:
        self.put(control(kind, **fields))
