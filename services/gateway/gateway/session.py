"""One WebSocket: requests typed word by word, spoken one after another. See docs/protocol.md.

Three tasks share a session: the reader takes messages and never waits for audio, the speaker
speaks one request after another into the outbox, the sender empties the outbox.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from typing import Any, Final

import msgspec
import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from gateway import errors
from gateway.errors import (
    BinaryMessage,
    ClientTooSlow,
    Draining,
    IdleTimeout,
    MessageTooBig,
    SynthesisFailed,
    WrongOrder,
)
from gateway.front import Front
from gateway.outbox import Outbox
from gateway.resample import resampler
from gateway.schema import (
    CancelSpeech,
    ClientMessage,
    InputDone,
    InputText,
    SessionClose,
    SessionConfig,
    SessionResume,
    parse_message,
)
from gateway.typed import FORMAT, ResumedRequest, Spoken, TypedRequest, Voicing, speak
from ttscommon.errors import AntiphonError, TextTooLong
from ttscommon.tasks import stop

PROTOCOL: Final = 1
_CLOSE_TIMEOUT_S: Final = 1.0
_CLEAN_UP_S: Final = 6.0
_CLOSE_CODE_TIMEOUT_S: Final = 0.2
_NORMAL: Final = 1000
_FAULT: Final = 1011
# No closing frame, or an empty one: the connection broke, as far as anybody can tell.
_LOST: Final = (1005, 1006)

log_ = structlog.get_logger(__name__)


class Session:
    """One connected client. `run` returns when the socket is done with."""

    def __init__(self, socket: WebSocket, front: Front) -> None:
        settings = front.settings
        self._socket = socket
        self._front = front
        self._settings = settings
        self._outbox = Outbox(settings.send_buffer_bytes, settings.slow_client_timeout_s)
        self._voicing: Voicing | None = None
        self._typing: TypedRequest | None = None
        self._skipping = False
        self._queue: deque[TypedRequest] = deque()
        self._queued = asyncio.Event()
        self._speaking: tuple[TypedRequest, asyncio.Task[None], Spoken] | None = None
        self._closing = False
        self._draining = False
        self._must_go = asyncio.Event()
        self._totals = Spoken()
        self._requests = 0
        self._touched_s = time.monotonic()
        self.ended = asyncio.Event()

    async def run(self) -> None:
        """Serve the client until either side is done."""
        await self._socket.accept()
        sender = asyncio.create_task(self._outbox.send_all(self._transmit))
        duties = (self._read, self._speak, self._watch, self._leave)
        parts = [asyncio.create_task(duty()) for duty in duties]
        code = _NORMAL
        try:
            done, _ = await asyncio.wait((sender, *parts), return_when=asyncio.FIRST_COMPLETED)
            match _failure(done):
                case WebSocketDisconnect() as gone:
                    if await _close_code(gone, parts[0]) in _LOST:
                        self._detach()
                    return
                case AntiphonError() as error:
                    code = self._fail(error)
                case Exception() as error:
                    log_.error("session.fault", exc_info=error)
                    code = self._fail(SynthesisFailed("internal error"), _FAULT)
        finally:
            await _stop(*parts)
            if self._speaking is not None:
                await _stop(self._speaking[1])
            await self._hang_up(sender, code)

    def drain(self) -> None:
        """This gateway shuts down: finish what was asked for, then tell the client to go."""
        self._draining = True
        self._queued.set()

    def hand_over(self) -> None:
        """This gateway ends now: whoever can resume elsewhere is told to."""
        self._must_go.set()

    async def _leave(self) -> None:
        await self._must_go.wait()
        self._detach()
        raise Draining("this gateway is shutting down; connect again and resume")

    def _detach(self) -> None:
        """Let what is being spoken go on without us, if its listener may come back."""
        if self._speaking is None:
            return
        typed, _, spoken = self._speaking
        if typed.voicing.resumable and spoken.speech is not None:
            spoken.speech.detached = True
            if not typed.complete:
                typed.finish()

    async def _hang_up(self, sender: asyncio.Task[None], code: int) -> None:
        """Send what is still to be said, within a bound, and close."""
        if self._socket.client_state is not WebSocketState.CONNECTED:
            await _stop(sender)
            return
        self._outbox.finish()
        if sender.done():
            sender = asyncio.create_task(self._outbox.send_all(self._transmit))
        await asyncio.wait((sender,), timeout=_CLOSE_TIMEOUT_S)
        await _stop(sender)
        if self._socket.application_state is not WebSocketState.CONNECTED:
            return
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._socket.close(code)
        except (TimeoutError, RuntimeError, WebSocketDisconnect):
            log_.debug("session.close_unheard")

    async def _transmit(self, data: str | bytes) -> None:
        if isinstance(data, str):
            await self._socket.send_text(data)
        else:
            await self._socket.send_bytes(data)

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
        if self._closing:
            raise WrongOrder("the session is closing")
        match message:
            case SessionConfig():
                await self._configure(message)
            case SessionResume():
                self._resume(message)
            case InputText():
                self._type(message.text)
            case InputDone():
                self._type_done()
            case CancelSpeech():
                self._cancel(message.request_id)
            case SessionClose():
                self._end_typing()
                self._closing = True
                self._queued.set()

    async def _configure(self, config: SessionConfig) -> None:
        if self._typing is not None:
            raise WrongOrder("session.config must come between requests, not inside one")
        tenant = self._front.keys.identify(self._socket.headers.get("authorization"))
        config.refuse_unsupported()
        model, voice = await self._front.catalogue.resolve(config.model, config.voice)
        rate = config.sample_rate or model.sample_rate
        resampler(model.sample_rate, rate)  # refuse it now rather than with the first audio
        first = self._voicing is None
        self._voicing = Voicing(
            model, voice, rate, config.seed, config.language, config.resumable, tenant
        )
        self._tell(
            "session.created" if first else "session.updated",
            session_id=secrets.token_urlsafe(8) if first else None,
            protocol=PROTOCOL,
            model=model.name,
            voice=voice.id,
            format=FORMAT,
            sample_rate=rate,
            channels=1,
            limits={
                "max_text_chars": self._settings.max_text_chars,
                "max_message_bytes": self._settings.max_message_bytes,
                "max_queued_requests": self._settings.max_queued_requests,
                "idle_timeout_s": self._settings.idle_timeout_s,
            },
        )

    def _resume(self, wish: SessionResume) -> None:
        if self._voicing is None or self._typing is not None:
            raise WrongOrder("session.resume must follow session.config, between requests")
        if len(self._queue) >= self._settings.max_queued_requests:
            raise WrongOrder("too many requests wait already; this one is ignored")
        self._queue.append(ResumedRequest(self._voicing, wish.request_id, wish.from_sample))
        self._queued.set()

    def _type(self, text: str) -> None:
        if self._voicing is None:
            raise WrongOrder("input.text must follow session.config")
        if self._skipping:
            return
        if self._typing is None:
            if len(self._queue) >= self._settings.max_queued_requests:
                self._skipping = True
                raise WrongOrder("too many requests wait already; this one is ignored")
            self._typing = TypedRequest(self._voicing, self._settings.max_text_chars)
            self._queue.append(self._typing)
            self._queued.set()
        try:
            self._typing.add(text)
        except TextTooLong:
            # Whoever speaks it, now or later, tells the client: that is this request's end.
            if self._speaking is not None and self._speaking[0] is self._typing:
                self._speaking[1].cancel()
            self._typing, self._skipping = None, True

    def _type_done(self) -> None:
        if self._typing is None and not self._skipping:
            raise WrongOrder("input.done must follow input.text")
        self._end_typing()

    def _end_typing(self) -> None:
        if self._typing is not None:
            self._typing.finish()
        self._typing, self._skipping = None, False

    def _cancel(self, request_id: str | None) -> None:
        """What is cancelled says so itself, in `audio.done`."""
        if self._typing is not None and request_id in (None, self._typing.request_id):
            # Text of a cancelled request may still be on its way, up to its input.done.
            self._typing, self._skipping = None, True
        for typed in self._queue:
            if request_id in (None, typed.request_id):
                typed.cancelled = True
        if self._speaking is not None and request_id in (None, self._speaking[0].request_id):
            self._speaking[0].cancelled = True
            self._outbox.drop_audio()
            self._speaking[1].cancel()
        self._queued.set()

    # The speaker

    async def _speak(self) -> None:
        while True:
            while not self._queue:
                if self._closing or self._draining:
                    self._say_goodbye()
                    return
                self._queued.clear()
                await self._queued.wait()
            await self._speak_one(self._queue.popleft())
            self._touched_s = time.monotonic()

    async def _speak_one(self, typed: TypedRequest) -> None:
        spoken = Spoken()
        task = asyncio.create_task(speak(typed, self._front, self._outbox, self._tell, spoken))
        self._speaking = (typed, task, spoken)
        self._requests += 1
        try:
            if typed.cancelled:
                task.cancel()
            await asyncio.wait((task,))
            if not task.cancelled():
                task.result()
            elif typed.failure is not None:
                raise typed.failure
            outcome = "cancelled" if task.cancelled() else "ok"
            self._tell("audio.done", request_id=typed.request_id, **spoken.report(outcome))
        except AntiphonError as error:
            if self._typing is typed:
                self._typing, self._skipping = None, True
            if errors.edge(error).close is not None:
                raise
            self._tell_error(error, typed.request_id)
        finally:
            await _stop(task)
            self._speaking = None
            self._totals.add(spoken)

    def _say_goodbye(self) -> None:
        if self._draining and not self._closing:
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
            busy = self._speaking is not None or self._queue
            if not busy and idle_s >= limit_s:
                raise IdleTimeout(f"nothing was said for {limit_s:g} s")
            await asyncio.sleep(limit_s if busy else limit_s - idle_s)

    # What the client is told

    def _tell(self, kind: str, **fields: Any) -> None:
        self._outbox.put(msgspec.json.encode({"type": kind, **fields}).decode())

    def _tell_error(self, error: AntiphonError, request_id: str | None = None) -> None:
        self._tell("error", request_id=request_id, error=errors.body(error))

    def _fail(self, error: AntiphonError, code: int | None = None) -> int:
        """Tell a fatal error, as the last thing; returns the close code."""
        log_.info("session.failed", code=error.code, message=error.message)
        if isinstance(error, ClientTooSlow):
            self._outbox.drop_audio()
        try:
            request_id = self._speaking[0].request_id if self._speaking else None
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


async def _close_code(gone: WebSocketDisconnect, reader: asyncio.Task[None]) -> int:
    """How the client left. A failed sending looks like a loss: the reader knows better."""
    await asyncio.wait((reader,), timeout=_CLOSE_CODE_TIMEOUT_S)
    error = reader.exception() if reader.done() and not reader.cancelled() else None
    return error.code if isinstance(error, WebSocketDisconnect) else gone.code


async def _stop(*tasks: asyncio.Task[Any]) -> None:
    await stop(*tasks, again_s=_CLEAN_UP_S)
