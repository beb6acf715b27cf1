"""One WebSocket: text comes in while audio goes out; see docs/protocol.md.

Three tasks share a session: the reader takes messages and never waits for audio, the speaker
speaks one request after another into the outbox, the sender empties the outbox.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from gateway import errors
from gateway.audio import Outbox
from gateway.errors import (
    BinaryMessage,
    ClientTooSlow,
    Draining,
    IdleTimeout,
    MessageTooBig,
    SynthesisFailed,
    WrongOrder,
)
from gateway.protocols.native.contexts import Contexts
from gateway.protocols.native.delivery import FORMAT, deliver
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
    parse_message,
    tell,
    write,
)
from gateway.protocols.native.state import (
    Ignoring,
    Input,
    Phase,
    Ready,
    ResumedRequest,
    SessionRequest,
    Speaking,
    SubmittedRequest,
    Taking,
    Totals,
    Unconfigured,
)
from gateway.protocols.shared.credentials import tenant_of
from gateway.requests import GatewayContext, SpeechSpec
from ttscommon.errors import AntiphonError, TextTooLong
from ttscommon.tasks import stop

PROTOCOL: Final = 1
_NORMAL: Final = 1000
_FAULT: Final = 1011
# No closing frame, or an empty one: the connection broke, as far as anybody can tell.
_LOST: Final = (1005, 1006)

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class SessionTuning:
    """Seconds. `close_s`: how long a client may take for the last messages. `clean_up_s`: longer
    than a request takes to be left. `close_code_s`: how long the reader may need to learn how the
    client left, after a sending failed.
    """

    close_s: float = 1.0
    clean_up_s: float = 6.0
    close_code_s: float = 0.2


class Session:
    """One connected client. `run` returns when the socket is done with."""

    def __init__(
        self, socket: WebSocket, context: GatewayContext, tuning: SessionTuning = SessionTuning()
    ) -> None:
        """Raises InvalidApiKey, before the upgrade."""
        settings = context.settings
        self._socket = socket
        self._context = context
        self._tenant = tenant_of(context, socket)
        self._settings = settings
        self._tuning = tuning
        self._outbox = Outbox(settings.send_buffer_bytes, settings.slow_client_timeout_s)
        self._input: Input = Unconfigured()
        self._phase = Phase.OPEN
        self._queue: deque[SessionRequest] = deque()
        self._queued = asyncio.Event()
        self._speaking: Speaking | None = None
        self._must_go = asyncio.Event()
        self._totals = Totals()
        self._requests = 0
        self._touched_s = time.monotonic()
        self.ended = asyncio.Event()
        self._contexts = Contexts(context, self._outbox)

    async def run(self) -> None:
        """Serve the client until either side is done."""
        await self._socket.accept()
        sender = asyncio.create_task(self._outbox.send_all(self._transmit))
        duties = (self._read, self._speak, self._watch, self._leave)
        parts = [asyncio.create_task(duty()) for duty in duties]
        code = _NORMAL
        failed: AntiphonError | None = None
        try:
            done, _ = await asyncio.wait((sender, *parts), return_when=asyncio.FIRST_COMPLETED)
            match _failure(done):
                case WebSocketDisconnect() as gone:
                    if await self._close_code(gone, parts[0]) in _LOST:
                        self._detach()
                    return
                case AntiphonError() as failed:
                    code = self._fail(failed)
                case Exception() as error:
                    log_.error("session.fault", exc_info=error)
                    failed = SynthesisFailed("internal error")
                    code = self._fail(failed, _FAULT)
        finally:
            await self._stop(*parts)
            await self._contexts.end(failed)
            if self._speaking is not None:
                await self._stop(self._speaking.task)
            await self._hang_up(sender, code)

    def drain(self) -> None:
        """This gateway shuts down: finish what was asked for, then tell the client to go."""
        if self._phase is Phase.OPEN:
            self._phase = Phase.DRAINING
        self._queued.set()

    def hand_over(self) -> None:
        """This gateway ends now: clients that can resume elsewhere are told to."""
        self._must_go.set()

    async def _leave(self) -> None:
        await self._must_go.wait()
        self._detach()
        raise Draining("this gateway is shutting down; connect again and resume")

    def _detach(self) -> None:
        """Let what is being spoken go on without us, if its client may come back."""
        speaking = self._speaking
        if speaking is not None and speaking.request.spec.resumable and speaking.speech.begun:
            speaking.speech.detached = True
            speaking.request.finish_text()
        self._contexts.detach()

    async def _hang_up(self, sender: asyncio.Task[None], code: int) -> None:
        """Send what is still to be said, within a bound, and close."""
        if self._socket.client_state is not WebSocketState.CONNECTED:
            await self._stop(sender)
            return
        self._outbox.finish()
        if sender.done():
            sender = asyncio.create_task(self._outbox.send_all(self._transmit))
        await asyncio.wait((sender,), timeout=self._tuning.close_s)
        await self._stop(sender)
        if self._socket.application_state is not WebSocketState.CONNECTED:
            return
        try:
            async with asyncio.timeout(self._tuning.close_s):
                await self._socket.close(code)
        except (TimeoutError, RuntimeError, WebSocketDisconnect):
            log_.debug("session.close_unheard")

    async def _close_code(self, gone: WebSocketDisconnect, reader: asyncio.Task[None]) -> int:
        """How the client left. A failed sending looks like a loss: the reader knows better."""
        await asyncio.wait((reader,), timeout=self._tuning.close_code_s)
        error = reader.exception() if reader.done() and not reader.cancelled() else None
        return error.code if isinstance(error, WebSocketDisconnect) else gone.code

    async def _transmit(self, data: str | bytes) -> None:
        if isinstance(data, str):
            await self._socket.send_text(data)
        else:
            await self._socket.send_bytes(data)

    async def _stop(self, *tasks: asyncio.Task[Any]) -> None:
        await stop(*tasks, again_s=self._tuning.clean_up_s)

    # The reader

    async def _read(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1005))
            self._touched_s = time.monotonic()
            try:
                await self._take(parse_message(self._text_of(message)))
            except AntiphonError as error:
                if errors.edge(error).close is not None:
                    raise
                self._tell_error(error)

    def _text_of(self, message: Any) -> str:
        text = message.get("text")
        if text is None:
            raise BinaryMessage("messages are JSON text; binary frames are for audio only")
        limit = self._settings.max_message_bytes
        if len(text) > limit or (not text.isascii() and len(text.encode()) > limit):
            raise MessageTooBig(f"the message is over {limit} bytes")
        return str(text)

    async def _take(self, message: ClientMessage) -> None:
        if self._phase is Phase.CLOSING:
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
                self._phase = Phase.CLOSING
                self._queued.set()

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
            wishes=config.wishes,
            lenient=False,
        )
        first = isinstance(self._input, Unconfigured)
        self._input = Ignoring(spec) if isinstance(self._input, Ignoring) else Ready(spec)
        self._tell_configuration(spec, first=first)

    def _tell_configuration(self, spec: SpeechSpec, *, first: bool) -> None:
        self._tell(
            "session.created" if first else "session.updated",
            session_id=secrets.token_urlsafe(8) if first else None,
            protocol=PROTOCOL,
            model=spec.model.name,
            voice=spec.voice.id,
            format=FORMAT,
            sample_rate=spec.sample_rate,
            channels=1,
            limits={
                "max_text_chars": self._settings.max_text_chars,
                "max_message_bytes": self._settings.max_message_bytes,
                "max_queued_requests": self._settings.max_queued_requests,
                "max_contexts": self._settings.max_contexts,
                "idle_timeout_s": self._settings.idle_timeout_s,
            },
            **({"warning": spec.warning} if spec.warning else {}),
        )

    def _resume(self, wish: SessionResume) -> None:
        if isinstance(self._input, Unconfigured | Taking):
            raise WrongOrder("session.resume must follow session.config, between requests")
        self._enqueue(
            ResumedRequest(self._input.spec, wish.request_id, wish.from_sample, wish.token)
        )

    def _enqueue(self, request: SessionRequest) -> None:
        if len(self._queue) >= self._settings.max_queued_requests:
            raise WrongOrder("too many requests wait already; this one is ignored")
        self._queue.append(request)
        self._queued.set()

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
                self._enqueue(request)
                self._input = Taking(spec, request)
            case Taking(spec, request):
                pass
        try:
            write(request.text, message)
        except TextTooLong:
            # The task that speaks it, now or later, tells the client: that is this request's end.
            self._input = Ignoring(spec)
            if self._speaking is not None and self._speaking.request is request:
                self._speaking.task.cancel()

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
        """What is cancelled says so itself, in `audio.done`."""
        match self._input:
            case Taking(spec, taking) if request_id in (None, taking.request_id):
                # Text of a cancelled request may still be on its way, up to its input.done.
                self._input = Ignoring(spec)
        for request in self._queue:
            if request_id in (None, request.request_id):
                request.cancelled = True
        speaking = self._speaking
        if speaking is not None and request_id in (None, speaking.request.request_id):
            speaking.request.cancelled = True
            speaking.totals.played_s = played_s
            self._outbox.drop_audio()
            speaking.task.cancel()
        self._queued.set()

    # The speaker

    async def _speak(self) -> None:
        while True:
            while not self._queue:
                if self._phase is not Phase.OPEN:
                    await self._contexts.ended()
                    self._say_goodbye()
                    return
                self._queued.clear()
                await self._queued.wait()
            await self._speak_one(self._queue.popleft())
            self._touched_s = time.monotonic()

    async def _speak_one(self, request: SessionRequest) -> None:
        speaking = self._start(request)
        task = speaking.task
        try:
            await asyncio.wait((task,))
            if not task.cancelled():
                task.result()
            elif isinstance(request, SubmittedRequest) and request.text.failure is not None:
                raise request.text.failure
            outcome = "cancelled" if task.cancelled() else "ok"
            self._tell("audio.done", request_id=request.request_id, **speaking.report(outcome))
        except AntiphonError as error:
            if isinstance(self._input, Taking) and self._input.request is request:
                self._input = Ignoring(self._input.spec)
            if errors.edge(error).close is not None:
                raise
            self._tell_error(error, request.request_id)
        finally:
            await self._stop(task)
            self._speaking = None
            self._totals.add(speaking.totals)

    def _start(self, request: SessionRequest) -> Speaking:
        speech, totals = request.speech(self._context), Totals()
        task = asyncio.create_task(deliver(request, speech, self._outbox, self._tell, totals))
        self._speaking = Speaking(request, speech, totals, task)
        self._requests += 1
        if request.cancelled:
            task.cancel()
        return self._speaking

    def _say_goodbye(self) -> None:
        if self._phase is Phase.DRAINING:
            raise Draining("this gateway is shutting down; connect again")
        self._tell(
            "session.done",
            requests=self._requests,
            samples=self._totals.samples,
            duration_s=round(self._totals.duration_s, 6),
        )

    async def _watch(self) -> None:
        """Ends a session in which nothing happens."""
        limit_s = self._settings.idle_timeout_s
        while True:
            idle_s = time.monotonic() - self._touched_s
            busy = self._speaking is not None or self._queue or self._contexts.busy
            if not busy and idle_s >= limit_s:
                raise IdleTimeout(f"nothing was said for {limit_s:g} s")
            await asyncio.sleep(limit_s if busy else limit_s - idle_s)

    # What the client is told

    def _tell(self, kind: str, **fields: Any) -> None:
        tell(self._outbox, kind, **fields)

    def _tell_error(self, error: AntiphonError, request_id: str | None = None) -> None:
        self._tell("error", request_id=request_id, error=errors.body(error))

    def _fail(self, error: AntiphonError, code: int | None = None) -> int:
        """Tell a fatal error, as the last thing; returns the close code."""
        log_.info("session.failed", code=error.code, message=error.message)
        if isinstance(error, ClientTooSlow):
            self._outbox.drop_audio()
        try:
            request_id = self._speaking.request.request_id if self._speaking else None
            self._tell_error(error, request_id)
        except ClientTooSlow:
            log_.debug("session.error_unheard")
        return code or errors.edge(error).close or _FAULT


def _failure(done: set[asyncio.Task[None]]) -> BaseException | None:
    """What ended the session, if not its own end.

    Raised once more, it would hold the frame that holds the task that holds it: a circle with the
    whole session in it, left to the collector.
    """
    return next((error for task in done if (error := task.exception()) is not None), None)
