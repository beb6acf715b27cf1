"""One request on its way from the codec log, through the engine, into the audio log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import msgspec
import structlog

from ttscommon.bus import AudioWriter, Bus, LogReader
from ttscommon.cluster.references import References
from ttscommon.cluster.worker import Job
from ttscommon.engine.events import EventRouter
from ttscommon.process.tasks import stop
from ttscommon.wire import subjects
from ttscommon.wire.errors import AntiphonError, LogGone
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import (
    AudioChunk,
    Checkpoint,
    Chunk,
    CodecChunk,
    End,
    Outcome,
    Position,
    Spent,
    Tensor,
    WordTime,
)
from vocoder.engine.engine import Engine, Event, Failed, Finished, Piece, Stopped
from vocoder.engine.stream import Resume, first_frame, whole_length

_FREE_TIMEOUT_S: Final = 30.0
_REFERENCE_TIMEOUT_S: Final = 10.0
# How long a listener may take to be heard of, where there seems to be none.
LISTENER_S: Final = 2.0
# How long a stream keeps its slot that gets on no further because its listener takes nothing more,
# or its text has not come. Such a listener has all of its credit in hand, and what it takes next is
# half of it.
PARK_S: Final = 0.5

log_ = structlog.get_logger(__name__)


class Words:
    """Word times on their way to the listener: each once, whoever sent the ones before."""

    def __init__(self, last: tuple[float, float] = (-1.0, -1.0)) -> None:
        self.last = last
        self._waiting: list[WordTime] = []

    def add(self, words: Sequence[WordTime]) -> None:
        """Take words in order of time; those at or before the `last` one are known already."""
        for word in words:
            if (times := (word.start_s, word.end_s)) > self.last:
                self.last = times
                self._waiting.append(word)

    def take(self) -> tuple[WordTime, ...]:
        """Whatever waits: words may run ahead of their audio, and never behind it."""
        words, self._waiting = tuple(self._waiting), []
        return words


class Fed:
    """The engine has all codes."""


class Late:
    """All codes that there are have been sounded, and more come with more text."""


class VocodeJob:
    """Runs one job from where its listener stands to its End.

    A listener that asks for samples which are not at hand any more has them decoded again. One that
    takes nothing for a while has the job parked, and so has a text that is late: the job waits
    without a slot, and goes on behind what it sent.
    """

    def __init__(
        self,
        bus: Bus,
        engine: Engine,
        router: EventRouter[Event],
        job: Job,
        writer: AudioWriter,
        codes_timeout_s: float,
    ) -> None:
        self._bus = bus
        self._engine = engine
        self._router = router
        self._job = job
        self._writer = writer
        self._codes_timeout_s = codes_timeout_s
        self._words = Words()
        self._spent: tuple[Spent, ...] = ()
        self._first_codes_s = 0.0
        self._codes_end: End | None = None
        self._conditions: Arrays | None = None
        self._fed = 0

    async def run(self, start: Position | None) -> None:
        """Decode everything from `start` on, or from where a listener turns up, and write the End.

        Leaves no slot behind, whatever happens.
        """
        try:
            prefix = await self._prefix()
        except AntiphonError as error:
            await self._writer.end(self._failure(error))
            return
        found: End | Position | None = start
        try:
            if found is None:
                found = await self._aside(self._unheard(prefix))
            while not isinstance(found, End):
                sounded = await self._sound(found, prefix)
                if isinstance(sounded, Late):
                    sounded = await self._aside(self._later())
                found = sounded or await self._aside(self._parked(prefix))
        except LogGone as error:
            if self._writer.remaking is None:
                raise  # the worker ends it
            found = self._failure(error)
        await self._writer.end(found)

    async def _sound(self, start: Position, prefix: Arrays | None) -> End | Position | Late | None:
        """Decode from `start` on, to the End or until a listener asks for an earlier sample.

        None when nobody takes more.
        """
        job, begun = self._job, await self._writer.begin(start)
        self._words = Words(begun.last_word)
        self._codes_end = None
        job.on_playback = lambda start_s: self._engine.playback(job.request_id, start_s)
        try:
            with self._router.listening(job.request_id) as events:
                resume = Resume(start.start, begun.frame, begun.mark)
                self._engine.open(job.request, resume, prefix, self._conditions)
                # What is made again is new to the listener, whenever the request began.
                if job.playback_start_s is not None and self._writer.remaking is None:
                    job.on_playback(job.playback_start_s)
                first = first_frame(self._engine.spec, begun.frame, prefix)
                return await self._outcome(events, first)
        finally:
            job.on_playback = None
            await self._free()

    async def _aside(self, waiting: Coroutine[Any, Any, End | Position]) -> End | Position:
        """What `waiting` brings, without a slot, and then with one again."""
        parked = self._job.park()
        await self._job.rest(True)
        found = await waiting
        await self._job.rest(False)
        if not parked:
            return found
        if isinstance(found, End):
            return found
        returning = asyncio.create_task(self._job.unpark())
        cancelled = asyncio.create_task(self._job.cancelled.wait())
        try:
            await asyncio.wait({returning, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            return self._cancelled() if cancelled.done() else found
        finally:
            await stop(returning, cancelled, again_s=0.5)

    async def _parked(self, prefix: Arrays | None) -> End | Position:
        """Wait until the listener takes more, or another comes, or there is none any more."""
        log_.info("audio.parked", request_id=self._job.request_id, position=self._writer.position)
        wanted = asyncio.create_task(self._writer.wanted())
        cancelled = asyncio.create_task(self._job.cancelled.wait())
        try:
            await asyncio.wait({wanted, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            if cancelled.done():
                return self._cancelled()
            if (found := wanted.result()) is not None:
                return found
        finally:
            await stop(wanted, cancelled, again_s=0.5)
        return self._writer.remaking or await self._unheard(prefix)

    async def _later(self) -> End | Position:
        """Wait until codes come that were not sounded, or a listener asks for what was."""
        log_.info("audio.awaits_codes", request_id=self._job.request_id, frame=self._fed)
        sought = asyncio.create_task(self._writer.sought())
        cancelled = asyncio.create_task(self._job.cancelled.wait())
        coming = asyncio.create_task(self._more_codes())
        try:
            await asyncio.wait({sought, cancelled, coming}, return_when=asyncio.FIRST_COMPLETED)
            if cancelled.done():
                return self._cancelled()
            if sought.done():
                return sought.result()
            return self._writer.last if coming.result() else self._codes_stopped()
        finally:
            await stop(sought, cancelled, coming, again_s=0.5)

    async def _more_codes(self) -> bool:
        """Wait for what follows the last codes that were read; False if nothing comes in time."""
        async with self._bus.reader(subjects.CODES, self._job.request_id, self._fed) as reader:
            return await self._next(reader) is not None

    async def _unheard(self, prefix: Arrays | None) -> End | Position:
        """Decode nothing for nobody: wait for a listener, or until the codes say where it ends."""
        log_.info("audio.unheard", request_id=self._job.request_id)
        heard = asyncio.create_task(self._writer.heard())
        cancelled = asyncio.create_task(self._job.cancelled.wait())
        ended = asyncio.create_task(self._end_of_codes(prefix))
        try:
            await asyncio.wait({heard, cancelled, ended}, return_when=asyncio.FIRST_COMPLETED)
            if cancelled.done():
                return self._cancelled()
            return heard.result() if heard.done() else ended.result()
        finally:
            await stop(heard, cancelled, ended, again_s=0.5)

    async def _end_of_codes(self, prefix: Arrays | None) -> End:
        """The audio's End as the codes have it, some time after they have theirs."""
        request_id = self._job.request_id
        async with self._bus.reader(subjects.CODES, request_id) as reader:
            while True:
                if (record := await self._next(reader)) is None:
                    return self._codes_stopped()
                if isinstance(record, End):
                    break
        await asyncio.sleep(LISTENER_S)
        end = self._end(record.outcome, record.code, record.message, record.param)
        if record.outcome == "cancelled":
            return end
        samples = whole_length(self._engine.spec, record.start, prefix)
        return msgspec.structs.replace(end, start=max(samples, end.start))

    async def _next(self, codes: LogReader, timeout_s: float | None = None) -> Chunk | End | None:
        """None if nothing comes in time."""
        if (record := codes.at_hand()) is not None:
            return record
        try:
            async with asyncio.timeout(timeout_s or self._codes_timeout_s):
                return await self._job.resting(anext(codes))
        except TimeoutError:
            return None

    def _codes_stopped(self) -> End:
        return self._end("error", "internal", "the codes stopped coming")

    async def _prefix(self) -> Arrays | None:
        """Frames of the request's reference, if its voice is cloned from one. What the codec is
        told of it beside frames is kept.
        """
        reference = self._job.request.reference
        arrays = None
        if reference is not None and reference.derived:
            async with asyncio.timeout(_REFERENCE_TIMEOUT_S):
                arrays = await References(self._bus).derived(reference)
        self._conditions = self._engine.conditions(self._job.request, arrays)
        return self._engine.prefix(self._job.request, arrays)

    async def _outcome(
        self, events: asyncio.Queue[Event], begin: int
    ) -> End | Position | Late | None:
        """Work until the request is cancelled, decoded or failed, or wanted from another sample.

        None when nobody takes more.
        """
        sought = asyncio.create_task(self._writer.sought())
        cancelled = asyncio.create_task(self._job.cancelled.wait())
        reading = asyncio.create_task(self._read(begin), name=f"codes-{self._job.request_id}")
        writing = asyncio.create_task(self._write(events), name=f"audio-{self._job.request_id}")
        waiting: set[asyncio.Task[Any]] = {cancelled, reading, writing, sought}
        try:
            while True:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if cancelled in done:
                    return self._cancelled()
                if writing in done:
                    return writing.result()
                if sought in done:
                    return sought.result()
                if reading in done and not isinstance(read := reading.result(), Fed):
                    return read
        finally:
            await stop(cancelled, reading, writing, sought, again_s=0.5)

    async def _read(self, begin: int) -> End | Fed | Late | None:
        """Feed the engine all codes, as far as the listener takes their sound.

        Returns an End if what waits is not worth decoding, None if nobody takes more.
        """
        request_id = self._job.request_id
        async with self._bus.reader(subjects.CODES, request_id, begin) as reader:
            while True:
                record = await self._next_or_late(reader)
                if isinstance(record, Late):
                    return record
                if record is None:
                    return self._codes_stopped()
                if isinstance(record, End):
                    break
                if not isinstance(record, CodecChunk):
                    return self._end("error", "malformed_message", "a record that holds no codes")
                if not await self._has_room(record.start):
                    return None
                if record.spent:
                    self._spent, self._first_codes_s = record.spent, time.monotonic()
                self._words.add(record.words)
                arrays = {name: tensor.array() for name, tensor in record.tensors.items()}
                self._engine.feed(request_id, arrays)
                self._fed = record.end
        if record.outcome == "cancelled" and self._writer.remaking is None:
            return self._end("cancelled", record.code, record.message)
        self._codes_end = record
        self._engine.finish(request_id)
        return Fed()

    @property
    def _may_wait(self) -> bool:
        """Whether codes may be late because their text is, and can be waited for without a slot."""
        bounded = self._engine.spec.context_frames is not None
        return bounded and not self._job.request.text_final and self._job.parkable

    async def _next_or_late(self, codes: LogReader) -> Chunk | End | Late | None:
        """Late while neither codes come nor the engine has any left; None if none come in time."""
        before = -1
        while self._may_wait and before < self._writer.position:
            before = self._writer.position
            if (record := await self._next(codes, PARK_S)) is not None:
                return record
        return Late() if self._may_wait else await self._next(codes)

    async def _has_room(self, frame: int) -> bool:
        """Wait until the listener takes what comes of the request's `frame`; False if it is better
        done without a slot.

        A codec that would have to decode everything again keeps its slot while somebody listens.
        """
        position = frame * self._engine.spec.samples_per_frame
        before = self._writer.position
        while not await self._writer.room(position, PARK_S):
            before, moved = self._writer.position, self._writer.position > before
            if moved:  # the engine was not done with what it has
                continue
            if self._engine.spec.context_frames is not None or not await self._writer.is_heard():
                return False
        return True

    async def _write(self, events: asyncio.Queue[Event]) -> End:
        """Put pieces as they come, and return the End that fits how the stream ended.

        What is made again ends where it did.
        """
        before = self._writer.remaking
        while before is None or self._writer.position < before.start:
            match await events.get():
                case Piece() as piece:
                    chunk = self._chunk(piece)
                    if before is not None and chunk.end > before.start:
                        chunk = chunk.head(before.start)
                    await self._writer.put(chunk)
                case Finished():
                    return self._relayed()
                case Failed(error):
                    return self._failure(error)
        return before

    def _chunk(self, piece: Piece) -> AudioChunk:
        return AudioChunk(
            self._job.request_id,
            self._writer.position,
            self._engine.spec.sample_rate,
            Tensor.of(piece.pcm),
            self._words.take(),
            self._take_spent(),
            Checkpoint(piece.frame, piece.mark, self._words.last),
        )

    def _take_spent(self) -> tuple[Spent, ...]:
        """What the first sound took until now; nothing for any later chunk."""
        if self._writer.position or not self._spent:
            return ()
        took_s = time.monotonic() - self._first_codes_s
        return (*self._spent, Spent("vocoder", took_s, took_s))

    def _relayed(self) -> End:
        """The talker's End, at the end of the audio."""
        end = self._codes_end
        if end is None:
            raise AssertionError("the engine finished a stream whose codes had not ended")
        return self._end(end.outcome, end.code, end.message, end.param)

    def _failure(self, error: Exception) -> End:
        """The End for what went wrong; a stopped engine is no fault of the request: raised."""
        if isinstance(error, Stopped):
            raise error
        if isinstance(error, AntiphonError):
            return self._end("error", error.code, error.message, error.param)
        log_.error("stream.failed", request_id=self._job.request_id, exc_info=error)
        return self._end("error", "internal", "synthesis failed")

    def _cancelled(self) -> End:
        return self._end("cancelled", "cancelled", "cancelled")

    def _end(
        self, outcome: Outcome, code: str = "", message: str = "", param: str | None = None
    ) -> End:
        request = self._job.request.for_remaking()
        position = self._writer.position
        return End(request.request_id, position, outcome, code, message, param, request)

    async def _free(self) -> None:
        """Give the slot back, if it is still held, and wait until the engine has done so."""
        loop = asyncio.get_running_loop()
        freed = asyncio.Event()
        self._engine.cancel(self._job.request_id, lambda: loop.call_soon_threadsafe(freed.set))
        await asyncio.wait_for(freed.wait(), _FREE_TIMEOUT_S)
        if self._job.cancelled.is_set():
            elapsed_s = time.monotonic() - self._job.cancelled_s
            self._engine.metrics.cancel_latency.labels("vocoder").observe(elapsed_s)
