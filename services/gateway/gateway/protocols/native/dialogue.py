"""What a client's messages do: configure the session, give text, cancel, resume, close."""

from __future__ import annotations

import secrets
from typing import Final

from gateway.audio import Outbox
from gateway.errors import WrongOrder
from gateway.protocols.native.contexts import Contexts
from gateway.protocols.native.delivery import FORMAT
from gateway.protocols.native.messages import (
    CancelSpeech,
    ClientMessage,
    InputDone,
    InputFlush,
    InputMessage,
    InputPause,
    InputPhones,
    InputText,
    OfContext,
    SessionClose,
    SessionConfig,
    SessionResume,
    tell,
    write,
)
from gateway.protocols.native.speaker import Speaker
from gateway.protocols.native.state import (
    Ignoring,
    Input,
    Phase,
    Ready,
    ResumedRequest,
    SubmittedRequest,
    Taking,
    Unconfigured,
)
from gateway.requests import GatewayContext, SpeechSpec
from ttscommon.wire.errors import TextTooLong

PROTOCOL: Final = 1


class Dialogue:
    """One session's input. Requests go to the speaker, or to the context that a message names."""

    def __init__(
        self,
        context: GatewayContext,
        tenant: str,
        speaker: Speaker,
        contexts: Contexts,
        outbox: Outbox,
    ) -> None:
        self._context = context
        self._tenant = tenant
        self._speaker = speaker
        self._contexts = contexts
        self._outbox = outbox
        self._input: Input = Unconfigured()

    async def take(self, message: ClientMessage) -> None:
        """Do what one message says; raises an AntiphonError about it."""
        match self._input:
            case Taking(spec, request) if request.refused:
                self._input = Ignoring(spec)
        if self._speaker.phase is Phase.CLOSING:
            raise WrongOrder("the session is closing")
        if isinstance(message, OfContext) and message.context_id is not None:
            await self._take_for_context(message)
            return
        match message:
            case SessionConfig():
                await self._configure(message)
            case SessionResume():
                self._resume(message)
            case InputText() | InputFlush() | InputPhones() | InputPause():
                self._take_text(message)
            case InputDone():
                self._end_text()
            case CancelSpeech():
                self._cancel(message.request_id, message.played_s)
            case SessionClose():
                self._end_text(quietly=True)
                self._contexts.finish()
                self._speaker.close()

    async def _configure(self, config: SessionConfig) -> None:
        if isinstance(self._input, Taking):
            raise WrongOrder("session.config must come between requests, not inside one")
        config.refuse_unsupported()
        spec = await self._context.spec(
            self._tenant,
            model=config.model,
            voice=config.voice,
            sample_rate=config.sample_rate,
            seed=config.seed,
            resumable=config.resumable,
            speed=config.speed,
            wishes=config.wishes,
            lenient=False,
        )
        first = isinstance(self._input, Unconfigured)
        self._input = Ignoring(spec) if isinstance(self._input, Ignoring) else Ready(spec)
        self._tell_configuration(spec, first=first)

    def _tell_configuration(self, spec: SpeechSpec, *, first: bool) -> None:
        settings = self._context.settings
        tell(
            self._outbox,
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

    def _resume(self, wish: SessionResume) -> None:
        if isinstance(self._input, Unconfigured | Taking):
            raise WrongOrder("session.resume must follow session.config, between requests")
        spec = self._input.spec
        self._speaker.enqueue(ResumedRequest(spec, wish.request_id, wish.from_sample, wish.token))

    async def _take_for_context(self, message: OfContext) -> None:
        if isinstance(self._input, Unconfigured):
            raise WrongOrder("contexts must follow session.config")
        await self._contexts.take(message, self._input.spec)

    def _take_text(self, message: InputMessage) -> None:
        match self._input:
            case Unconfigured():
                raise WrongOrder("input.text must follow session.config")
            case Ignoring():
                return
            case Ready(spec):
                request = SubmittedRequest(spec, self._context.text())
                self._input = Ignoring(spec)  # should it be refused
                self._speaker.enqueue(request)
                self._input = Taking(spec, request)
            case Taking(spec, request):
                pass
        try:
            write(request.text, message)
        except TextTooLong:
            self._input = Ignoring(spec)
            self._speaker.give_up(request)

    def _end_text(self, *, quietly: bool = False) -> None:
        match self._input:
            case Taking(spec, request):
                request.text.finish()
                self._input = Ready(spec)
            case Ignoring(spec):
                self._input = Ready(spec)
            case _ if not quietly:
                raise WrongOrder("input.done must follow input.text")

    def _cancel(self, request_id: str | None, played_s: float | None) -> None:
        match self._input:
            case Taking(spec, taking) if request_id in (None, taking.request_id):
                self._input = Ignoring(spec)
        self._speaker.cancel(request_id, played_s)
