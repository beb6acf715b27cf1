"""One connected client, whatever it speaks and whatever carries it: the life of a session.

Two tasks share a session: the reader takes messages, and the sender empties the outbox that the
session's utterances fill.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from enum import Enum, auto
from typing import Any, Final, Generic, TypeVar

import structlog

from gateway import errors
from gateway.audio import AudioFormat, Outbox
from gateway.errors import ClientTooSlow, IdleTimeout, SynthesisFailed, TooManyContexts
from gateway.protocols.utterance import (
    CLEAN_UP_S,
    F,
    Gone,
    Playlist,
    Rest,
    StreamedText,
    Transport,
    hang_up,
)
from gateway.requests import GatewayContext, IncrementalText, Speech, SpeechSpec
from ttscommon.process.tasks import stop, to_the_end
from ttscommon.wire.errors import AntiphonError

NORMAL: Final = 1000
GOING_AWAY: Final = 1012
_FAULT: Final = 1011
# How long the reader may need to learn how the client left, after a sending failed.
_LEARN_S: Final = 0.2
_PCM: Final = AudioFormat()

M = TypeVar("M")

log_ = structlog.get_logger(__name__)


class Leave(Exception):
    """The session is over: send what waits, then close with `code`."""

    def __init__(self, code: int = NORMAL) -> None:
        self.code = code


class SessionPhase(Enum):
    """Whether a session takes more. `CLOSING`: its client wants to go, else its gateway does."""

    OPEN = auto()
    DRAINING = auto()
    CLOSING = auto()


class Session(ABC, Generic[M, F]):
    """`serve` returns when the connection is done with.

    Whatever ends it, its utterances are stopped and the connection is closed once. `contexts`: the
    utterances that messages find by a name. `turns`: those that wait for one another.
    """

    def __init__(self, transport: Transport, context: GatewayContext) -> None:
        settings = context.settings
        self.context = context
        self.settings = settings
        self.outbox = Outbox(settings.send_buffer_bytes, settings.slow_client_timeout_s)
        self.utterances: list[StreamedText[F]] = []
        self.contexts: dict[str, StreamedText[F]] = {}
        self.turns: Playlist[F] = Playlist()
        self.idle_s = settings.idle_timeout_s
        self.ended = asyncio.Event()
        self.phase = SessionPhase.OPEN
        self._transport = transport
        self._touched_s = time.monotonic()
        self._leaving: asyncio.Future[int | AntiphonError] = (
            asyncio.get_running_loop().create_future()
        )

    # What a protocol says

    @abstractmethod
    async def parse(self, frame: Any) -> M:
        """What a frame says; raises AntiphonError."""

    @abstractmethod
    async def take(self, message: M) -> None:
        """Do what a message says; raises Leave, or an AntiphonError that `refused` tells."""

    @abstractmethod
    def refused(self, error: AntiphonError, message: M | None) -> None:
        """Tell what is wrong with a message."""

    def fatal(self, error: AntiphonError) -> bool:
        """Whether what is wrong with a message ends the session."""
        return errors.edge(error).close is not None

    def failed(self, error: AntiphonError) -> None:
        """Tell what ends the session."""
        self.refused(error, None)

    def abandoned(self, utterance: StreamedText[F], error: AntiphonError) -> None:
        """Tell what ended an utterance with its session."""

    def emptied(self) -> None:
        """Nothing is left to say, and the session was to end then."""
        self.leave(GOING_AWAY if self.phase is SessionPhase.DRAINING else NORMAL)

    def handed_over(self) -> None:
        """This gateway ends now."""
        self.leave(GOING_AWAY)

    # What a protocol does

    def begin(
        self,
        spec: SpeechSpec,
        framing: F,
        audio: AudioFormat = _PCM,
        name: str | None = None,
        rest: Rest | None = None,
        *,
        rows: bool = False,
        text: IncrementalText | None = None,
    ) -> StreamedText[F]:
        """An utterance, which still has to be started. `text`: where it is there already. With
        `rest` it was sent elsewhere, and with `rows` it is none.
        """
        text = text or self.context.text()
        if rest is None:
            speech = self.context.speak(spec, text, rows=rows)
        else:
            text.finish()
            speech = self.context.attach(spec, rest.request_id, rest.from_sample, rest.token)
        return self.adopt(speech, framing, audio, text, name)

    def adopt(
        self,
        speech: Speech,
        framing: F,
        audio: AudioFormat,
        text: IncrementalText,
        name: str | None = None,
    ) -> StreamedText[F]:
        """An utterance of a request, which still has to be started."""
        utterance = StreamedText(speech, audio, framing, self.outbox, text, name)
        self.utterances.append(utterance)
        if name is not None:
            self.contexts[name] = utterance
        return utterance

    def require_room(self) -> None:
        """Raises TooManyContexts."""
        most = self.settings.max_contexts
        if sum(utterance.name is not None for utterance in self.utterances) >= most:
            raise TooManyContexts(f"at most {most} contexts may be open")

    def start(self, utterance: StreamedText[F]) -> None:
        utterance.start(self._ended_by_itself)

    def enqueue(self, utterance: StreamedText[F]) -> None:
        """Start it when those before it are over."""
        if self.turns.add(utterance):
            self.start(utterance)

    async def stop(self, utterance: StreamedText[F]) -> bool:
        """Return when its slots are free and what had not left is dropped.

        False if it ended by itself meanwhile; else it is still to be `finished`.
        """
        self.outbox.drop_audio(utterance)
        await utterance.stop()
        self.outbox.drop_audio(utterance)
        return utterance in self.utterances

    def put(self, data: str | bytes) -> None:
        """Queue a control message; ends the session of a client that does not read them."""
        try:
            self.outbox.put(data)
        except ClientTooSlow as slow:
            self.fail(slow)

    def over(self, utterance: StreamedText[F], error: AntiphonError | None) -> None:
        """An utterance ended, and was not stopped."""
        framing, speech = utterance.framing, utterance.speech
        if error is not None and framing.drops:
            self.outbox.drop_audio(utterance)
        if told := framing.failed(speech, error) if error else framing.end(speech):
            self.put(told)
        self.finished(utterance)

    def finished(self, utterance: StreamedText[F]) -> None:
        """An utterance is over, however it ended."""
        self.utterances.remove(utterance)
        if utterance.name is not None and self.contexts.get(utterance.name) is utterance:
            del self.contexts[utterance.name]
        self._touched_s = time.monotonic()
        self._end_if_empty()
        if (following := self.turns.over(utterance)) is not None:
            self.start(following)

    def close(self) -> None:
        """The client wants no more than it asked for."""
        self.phase = SessionPhase.CLOSING
        self._end_if_empty()

    def leave(self, code: int = NORMAL) -> None:
        """Close once everything queued so far has left; safe to call twice."""
        if not self._leaving.done():
            self._leaving.set_result(code)

    def fail(self, error: AntiphonError) -> None:
        """End the session with an error; the first one counts."""
        if not self._leaving.done():
            # Its frames hold this session, which holds it.
            self._leaving.set_result(error.with_traceback(None))

    # The life of a session

    def drain(self) -> None:
        """This gateway shuts down, or the session is too old: finish what was asked for, and go."""
        if self.phase is SessionPhase.OPEN:
            self.phase = SessionPhase.DRAINING
        self._end_if_empty()

    def hand_over(self) -> None:
        """This gateway ends now: clients that can resume elsewhere may."""
        self.detach()
        self.handed_over()

    async def serve(self) -> None:
        """Serve the client until either side is done."""
        sender = asyncio.create_task(self.outbox.send_all(self._transport.send))
        parts = [asyncio.create_task(self._read()), asyncio.create_task(self._watch())]
        code, failed = NORMAL, None
        try:
            ends: set[asyncio.Future[Any]] = {sender, *parts, self._leaving}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            code, failed = await self._verdict([sender, *parts])
        finally:
            # A gateway that ends cancels sessions, also those that clean up already.
            await to_the_end(self._clean_up(parts, sender, code, failed))

    async def _clean_up(
        self,
        parts: list[asyncio.Task[None]],
        sender: asyncio.Task[None],
        code: int,
        failed: AntiphonError | None,
    ) -> None:
        await stop(*parts, again_s=CLEAN_UP_S)
        await self._stop_all(failed)
        await hang_up(self._transport, self.outbox, sender, code)

    async def _verdict(self, tasks: list[asyncio.Task[None]]) -> tuple[int, AntiphonError | None]:
        """The close code for whatever ended the session, and its failure.

        Raised once more, an error would hold the frame that holds the task that holds it: a circle
        with the whole session in it, left to the collector.
        """
        raised = (error for task in tasks if task.done() and (error := task.exception()))
        match next(raised, None) or self._leaving.result():
            case Gone(lost=lost):
                if await self._was_lost(tasks[1], lost):
                    self.detach()
                return NORMAL, None
            case Leave(code=code) | int(code):
                return code, None
            case AntiphonError() as error:
                return self._tell_failure(error), error
            case other:
                log_.error("session.fault", exc_info=other)
                error = SynthesisFailed("internal error")
                return self._tell_failure(error), error

    async def _was_lost(self, reader: asyncio.Task[None], lost: bool) -> bool:
        """A failed sending looks like a loss: the reader knows better."""
        await asyncio.wait((reader,), timeout=_LEARN_S)
        error = reader.exception() if reader.done() and not reader.cancelled() else None
        return error.lost if isinstance(error, Gone) else lost

    def _tell_failure(self, error: AntiphonError) -> int:
        """The last thing that is told; returns the close code."""
        log_.info("session.failed", code=error.code, message=error.message)
        if isinstance(error, ClientTooSlow):
            self.outbox.drop_audio()
        self.failed(error)
        return errors.edge(error).close or _FAULT

    async def _stop_all(self, error: AntiphonError | None) -> None:
        """Whatever ends meanwhile by itself starts nothing more."""
        left, self.utterances = self.utterances, []
        self.contexts.clear()
        await asyncio.gather(*(self.stop(utterance) for utterance in left))
        if error is not None:
            for utterance in left:
                self.abandoned(utterance, error)

    def _ended_by_itself(self, utterance: StreamedText[F], error: AntiphonError | None) -> None:
        if utterance in self.utterances:
            self.over(utterance, error)

    def detach(self) -> None:
        """The client was lost, or is to go on elsewhere: let go on what it may come back for."""
        for utterance in self.utterances:
            utterance.detach()

    def _end_if_empty(self) -> None:
        if self.phase is not SessionPhase.OPEN and not self.utterances and not self._leaving.done():
            self.emptied()

    async def _read(self) -> None:
        while True:
            frame = await self._transport.receive()
            self._touched_s = time.monotonic()
            message: M | None = None
            try:
                message = await self.parse(frame)
                await self.take(message)
            except AntiphonError as error:
                if self.fatal(error):
                    raise
                self.refused(error, message)

    async def _watch(self) -> None:
        """Ends a session in which nothing happens."""
        limit_s = self.idle_s
        while True:
            idle_s = time.monotonic() - self._touched_s
            busy = any(utterance.speech.begun for utterance in self.utterances)
            if not busy and idle_s >= limit_s:
                raise IdleTimeout(f"nothing was said for {limit_s:g} s")
            await asyncio.sleep(limit_s if busy else limit_s - idle_s)
