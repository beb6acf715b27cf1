"""One request on its way from text, through the engine, into the codec log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec
import structlog

from talker.engine.engine import Engine
from talker.engine.stream import ChunkReady, Event
from talker.family.base import Prepared
from ttscommon.bus import Bus, LogReader, LogWriter
from ttscommon.cluster.references import References
from ttscommon.cluster.worker import Job
from ttscommon.engine.events import EventRouter
from ttscommon.engine.runtime import Failed, Finished, Stopped
from ttscommon.process import tracing
from ttscommon.process.tasks import stop
from ttscommon.wire import subjects
from ttscommon.wire.errors import AntiphonError, BusUnavailable, Overloaded
from ttscommon.wire.fields import Arrays, concatenate
from ttscommon.wire.messages import (
    CodecChunk,
    End,
    Outcome,
    SpeechRequest,
    Spent,
    Tensor,
    TextPiece,
)
from ttscommon.wire.pieces import Piece, unmarked

_FREE_TIMEOUT_S: Final = 30.0
# Encoding half a minute of sound, beside everybody's speech.
_DERIVE_TIMEOUT_S: Final = 120.0

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class TextTiming:
    """How a request's text is read.

    timeout_s: text that stays away for so long is taken to be complete, or a gateway that died
    would hold a slot for ever. rest_share: beyond the first utterance, the part of the time that
    reading may take: it competes with the engine for the interpreter, and a minute of speech is
    read in milliseconds. first_s: for the same reason the first chunk is waited for before more is
    read, but no longer than that. room_s: between two attempts to queue the vocoders' job. park_s:
    a stream that has spoken its text and waits for so long keeps no slot.
    """

    timeout_s: float = 120.0
    first_s: float = 0.15
    rest_share: float = 0.1
    room_s: float = 0.2
    park_s: float = 0.5


class TalkJob:
    """Runs one job from where its codec log ends to its End."""

    def __init__(
        self,
        bus: Bus,
        engine: Engine,
        router: EventRouter[Event],
        job: Job,
        writer: LogWriter,
        timing: TextTiming,
    ) -> None:
        self._bus = bus
        self._engine = engine
        self._router = router
        self._job = job
        self._writer = writer
        self._timing = timing
        self._key = job.request_id
        self._opened_s = time.monotonic()
        self._request = job.request
        self._reference: Arrays | None = None
        self._refused: Exception | None = None
        self._begun = asyncio.Event()

    async def run(self) -> None:
        """Have the engine speak while the vocoders' job is queued, and write the End."""
        await self._find_reference()
        # The first frames need not wait for the broker's word that the vocoders have their job.
        submitting = asyncio.create_task(self._submit())
        self._job.on_playback = lambda start_s: self._engine.playback(self._key, start_s)
        try:
            with self._router.listening(self._key) as events:
                end = await self._outcome(submitting, events)
            await submitting
            await self._writer.end(end)
        finally:
            self._job.on_playback = None
            await stop(submitting, again_s=0.5)

    async def _submit(self) -> None:
        """Queue the vocoders' job. While their queue is full this talker waits for them, unless
        nobody wants to hear the request any more.
        """
        refused = False
        while not (refused and self._job.cancelled.is_set()):
            try:
                await self._bus.submit(subjects.VOCODER, self._request)
                return
            except Overloaded:
                if not refused:
                    log_.warning("vocoders.full", request_id=self._key)
                refused = True
                await asyncio.sleep(self._timing.room_s)

    async def _find_reference(self) -> None:
        """Whose voice it is, before the vocoders are told, as they need it too."""
        asked = self._request.reference
        if asked is None:
            return
        family = self._engine.family

        async def encode(recording: bytes) -> Arrays:
            return await asyncio.to_thread(family.derive, recording)

        try:
            async with asyncio.timeout(_DERIVE_TIMEOUT_S):
                found, self._reference = await References(self._bus).derive(
                    asked, family.revision, encode
                )
            self._request = msgspec.structs.replace(self._request, reference=found)
        except BusUnavailable:
            raise
        except TimeoutError as error:
            raise BusUnavailable("the recording could not be read in time") from error
        except Exception as error:  # noqa: BLE001 -- becomes the request's End
            self._refused = error

    async def _outcome(self, submitting: asyncio.Task[Any], events: asyncio.Queue[Event]) -> End:
        """Work until the request is cancelled, spoken or failed, whichever is first."""
        speaking = asyncio.create_task(self._speak(), name=f"text-{self._key}")
        writing = asyncio.create_task(self._write(events), name=f"codes-{self._key}")
        cancelled = asyncio.create_task(self._job.cancelled.wait())
        waiting: set[asyncio.Task[Any]] = {speaking, writing, cancelled, submitting}
        try:
            while True:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if cancelled in done:
                    return self._end("cancelled", "cancelled", "cancelled")
                if submitting in done:
                    submitting.result()  # without a vocoder there is no use in speaking on
                if writing in done:
                    return writing.result()
                if speaking in done:
                    speaking.result()
        except AntiphonError as error:
            if submitting.done() and submitting.exception() is error:
                raise
            return self._failure(error)
        finally:
            await stop(speaking, writing, cancelled, again_s=0.5)
            await self._free()

    async def _speak(self) -> None:
        """Open the stream with its first utterance, then pass on the text that follows.

        Preparing and reading happen in threads: a long text must not hold up the streams of
        others, neither in the engine nor here. Raises what the model refuses.
        """
        if self._refused is not None:
            raise self._refused
        request = self._request
        prepared, units, first = await asyncio.to_thread(self._begin)
        restored = self._restored()
        self._opened_s = time.monotonic()
        self._engine.open(prepared, restored, first)
        if self._job.playback_start_s is not None:
            self._engine.playback(self._key, self._job.playback_start_s)
        if first:
            await self._first_chunk()
        await self._feed_all(units)
        if not request.text_final:
            await self._feed_late(prepared)
        self._engine.feed(self._key, (), final=True)

    def _begin(self) -> tuple[Prepared, Iterator[Any], Sequence[Any]]:
        """The request as the model sees it, the units of its text, and the first of them."""
        request = self._request
        prepared = self._engine.family.prepare(request, self._reference)
        units = prepared.read(_pieces(request), final=request.text_final)
        return prepared, units, _next(units)

    async def _first_chunk(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.first_s):
                await self._begun.wait()

    async def _feed_all(self, units: Iterator[Any]) -> None:
        while True:
            began = time.monotonic()
            if not (unit := await asyncio.to_thread(_next, units)):
                return
            self._engine.feed(self._key, unit, final=False)
            took_s = time.monotonic() - began
            await asyncio.sleep(took_s * (1.0 / self._timing.rest_share - 1.0))

    async def _feed_late(self, prepared: Prepared) -> None:
        """Pass text on as it arrives. A text log that ends badly ends the text all the same, and
        so does one whose writer fell silent.
        """
        async with self._bus.reader(subjects.TEXT, self._key) as reader:
            while (record := await self._later(reader)) is not None:
                await self._feed_all(prepared.read(_pieces(record), final=False))
        nothing: Sequence[Piece] = ()
        await self._feed_all(prepared.read(nothing, final=True))

    async def _later(self, reader: LogReader) -> TextPiece | None:
        """The next text; None at its end. Without any for a while the stream waits without a slot,
        once it has spoken what there is.
        """
        until_s = time.monotonic() + self._timing.timeout_s
        while (left_s := until_s - time.monotonic()) > 0.0:
            with suppress(TimeoutError):
                return await _text(reader, min(self._timing.park_s, left_s))
            if await self._park():
                found = None
                with suppress(TimeoutError):
                    found = await _text(reader, max(0.0, until_s - time.monotonic()))
                await self._unpark()
                return found
        return None

    async def _park(self) -> bool:
        """Free both slots, the engine's first: the next job may come at once."""
        if not self._job.parkable:
            return False
        loop = asyncio.get_running_loop()
        parked: asyncio.Future[bool] = loop.create_future()
        self._engine.park(self._key, lambda was: loop.call_soon_threadsafe(_tell, parked, was))
        if not await asyncio.wait_for(parked, _FREE_TIMEOUT_S):
            return False
        if self._job.park():
            log_.info("codes.parked", request_id=self._key, position=self._writer.position)
            return True
        self._engine.unpark(self._key)
        return False

    async def _unpark(self) -> None:
        """Go on behind what was said, with slots again."""
        await self._job.unpark()
        self._engine.unpark(self._key)

    async def _write(self, events: asyncio.Queue[Event]) -> End:
        """Put chunks until the stream ends, and return the End that fits how it ended."""
        while True:
            match await events.get():
                case ChunkReady(arrays, words, prefill):
                    if prefill is not None:
                        tracing.phase("prefill", *prefill)
                    tensors = {name: Tensor.of(array) for name, array in arrays.items()}
                    spent = () if self._writer.position else (self._spent(),)
                    chunk = CodecChunk(self._key, self._writer.position, tensors, words, spent)
                    await self._writer.put(chunk)
                    self._begun.set()
                    self._engine.acknowledge(self._key)
                case Finished():
                    return self._end("ok")
                case Failed(Stopped() as error):
                    raise error  # another worker's engine can do it
                case Failed(error):
                    return self._failure(error)

    def _spent(self) -> Spent:
        now = time.monotonic()
        return Spent("talker", now - self._job.claimed_s, now - self._opened_s)

    def _restored(self) -> Arrays | None:
        chunks = [chunk for chunk in self._writer.restored if isinstance(chunk, CodecChunk)]
        if not chunks:
            return None
        return concatenate([{n: t.array() for n, t in chunk.tensors.items()} for chunk in chunks])

    def _failure(self, error: Exception) -> End:
        if isinstance(error, AntiphonError):
            return self._end("error", error.code, error.message, error.param)
        log_.error("stream.failed", request_id=self._key, exc_info=error)
        return self._end("error", "internal", "synthesis failed")

    def _end(
        self, outcome: Outcome, code: str = "", message: str = "", param: str | None = None
    ) -> End:
        return End(self._key, self._writer.position, outcome, code, message, param)

    async def _free(self) -> None:
        """Give the slot back, if it is still held, and wait until the engine has done so."""
        loop = asyncio.get_running_loop()
        freed = asyncio.Event()
        self._engine.cancel(self._key, lambda: loop.call_soon_threadsafe(freed.set))
        await asyncio.wait_for(freed.wait(), _FREE_TIMEOUT_S)
        if self._job.cancelled.is_set():
            elapsed_s = time.monotonic() - self._job.cancelled_s
            self._engine.metrics.cancel_latency.labels("talker").observe(elapsed_s)


def _pieces(told: SpeechRequest | TextPiece) -> list[Piece]:
    return unmarked(told.text, told.marks, told.spans)


def _next(units: Iterator[Any]) -> Sequence[Any]:
    """The next unit, alone; nothing at the end."""
    return tuple(islice(units, 1))


async def _text(reader: LogReader, timeout_s: float) -> TextPiece | None:
    """None where the text ends, well or not; raises TimeoutError."""
    async with asyncio.timeout(timeout_s):
        record = await anext(reader, None)
    return record if isinstance(record, TextPiece) else None


def _tell(parked: asyncio.Future[bool], was: bool) -> None:
    if not parked.done():
        parked.set_result(was)
