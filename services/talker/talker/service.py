"""The talker's bus edge: jobs in, codec chunks out. The engine knows nothing of NATS."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import structlog

from talker.engine.engine import ChunkReady, Engine, Event, Failed, Finished, Stopped
from talker.loading import build_engine
from talker.models.base import Arrays, concatenate
from talker.settings import TalkerSettings
from ttscommon import subjects
from ttscommon.bus import Bus, LogWriter
from ttscommon.errors import AntiphonError
from ttscommon.messages import CodecChunk, End, SpeechRequest, Spent, Tensor, TextPiece
from ttscommon.service import Service
from ttscommon.stage import run_stage
from ttscommon.tasks import stop
from ttscommon.worker import Handler, Job

log_ = structlog.get_logger(__name__)


async def serve(service: Service, settings: TalkerSettings) -> None:
    """Run a talker until the service stops; raises what killed the engine, if anything did."""

    def handler(bus: Bus, engine: Engine) -> Handler:
        return Talker(bus, engine, settings.text_timeout_s).handle

    build = partial(build_engine, settings)
    await run_stage(service, settings, subjects.TALKER, build, handler, feeds=subjects.VOCODER)


class Talker:
    """Speaks one job after another into their codec logs."""

    def __init__(self, bus: Bus, engine: Engine, text_timeout_s: float = 120.0) -> None:
        self._bus = bus
        self._engine = engine
        self._text_timeout_s = text_timeout_s

    async def handle(self, job: Job) -> None:
        """Speak the job's request from wherever its log ends; returns once the log has its end."""
        request = job.request
        writer = await self._bus.writer(subjects.CODES, request.request_id, job.epoch)
        try:
            if writer.ended:  # whoever ended it may not have lived to queue the vocoders' job
                await self._bus.submit(subjects.VOCODER, request)
            elif sum(chunk.end - chunk.start for chunk in writer.restored) < writer.position:
                await writer.end(_beginning_gone(request.request_id, writer.position))
            else:
                await self._speak(job, writer)
            await writer.close()
        finally:
            await writer.release()

    async def _speak(self, job: Job, writer: LogWriter) -> None:
        """Have the engine speak while the vocoders' job is queued."""
        request = job.request
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event] = asyncio.Queue()
        opened_s = time.monotonic()
        job.on_playback = lambda start_s: self._engine.playback(request.request_id, start_s)
        self._engine.open(
            request,
            _restored(writer),
            partial(_post, loop, events),
        )
        if job.playback_start_s is not None:
            self._engine.playback(request.request_id, job.playback_start_s)
        # The first frames need not wait for the broker's word that the vocoders have their job.
        submitting = asyncio.create_task(self._bus.submit(subjects.VOCODER, request))
        duties = [submitting]
        if not request.text_final:
            name = f"text-{request.request_id}"
            duties.append(asyncio.create_task(self._feed(request), name=name))
        try:
            end = await self._until_end(job, writer, events, opened_s)
            await submitting
            await writer.end(end)
        finally:
            job.on_playback = None
            await stop(*duties, again_s=0.5)
            await self._free(job)

    async def _until_end(
        self, job: Job, writer: LogWriter, events: asyncio.Queue[Event], opened_s: float
    ) -> End:
        """Put chunks until the stream ends, whichever way; returns the End to write."""
        request_id = job.request_id
        cancelled = asyncio.create_task(job.cancelled.wait())
        try:
            while True:
                arrival = asyncio.create_task(events.get())
                await asyncio.wait({arrival, cancelled}, return_when=asyncio.FIRST_COMPLETED)
                if cancelled.done():
                    arrival.cancel()
                    return End(request_id, writer.position, "cancelled", "cancelled", "cancelled")
                match arrival.result():
                    case ChunkReady(arrays, words):
                        tensors = {name: Tensor.of(array) for name, array in arrays.items()}
                        spent = () if writer.position else (_spent(job, opened_s),)
                        chunk = CodecChunk(request_id, writer.position, tensors, words, spent)
                        await writer.put(chunk)
                        self._engine.acknowledge(request_id)
                    case Finished():
                        return End(request_id, writer.position, "ok")
                    case Failed(Stopped() as error):
                        raise error  # somebody else's engine can do it
                    case Failed(error):
                        return _failure(request_id, writer.position, error)
        finally:
            cancelled.cancel()

    async def _free(self, job: Job) -> None:
        """Give the slot back, and wait until the engine has done so."""
        loop = asyncio.get_running_loop()
        freed = asyncio.Event()
        self._engine.cancel(job.request_id, partial(_signal, loop, freed))
        await asyncio.wait_for(freed.wait(), 30.0)
        if job.cancelled.is_set():
            elapsed = time.monotonic() - job.cancelled_s
            self._engine.metrics.cancel_latency.labels("talker").observe(elapsed)

    async def _feed(self, request: SpeechRequest) -> None:
        """Pass text on as it arrives. A text log that ends badly ends the text all the same, and
        so does one whose writer fell silent: a gateway that died would hold a slot for ever.
        """
        async with self._bus.reader(subjects.TEXT, request.request_id) as reader:
            while True:
                try:
                    async with asyncio.timeout(self._text_timeout_s):
                        record = await anext(reader)
                except (TimeoutError, StopAsyncIteration):
                    break
                if not isinstance(record, TextPiece):
                    break
                self._engine.feed(request.request_id, record.text, final=False)
        self._engine.feed(request.request_id, "", final=True)


def _post(loop: asyncio.AbstractEventLoop, events: asyncio.Queue[Event], event: Event) -> None:
    loop.call_soon_threadsafe(events.put_nowait, event)


def _signal(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


def _spent(job: Job, opened_s: float) -> Spent:
    now = time.monotonic()
    return Spent("talker", now - job.claimed_s, now - opened_s)


def _restored(writer: LogWriter) -> Arrays | None:
    chunks = [chunk for chunk in writer.restored if isinstance(chunk, CodecChunk)]
    if not chunks:
        return None
    return concatenate([{n: t.array() for n, t in chunk.tensors.items()} for chunk in chunks])


def _beginning_gone(request_id: str, position: int) -> End:
    """Frames follow from those before, so without the first ones nobody can go on."""
    message = "the store was too full to keep the beginning of the request"
    return End(request_id, position, "error", "internal", message)


def _failure(request_id: str, position: int, error: Exception) -> End:
    if isinstance(error, AntiphonError):
        return End(request_id, position, "error", error.code, error.message, error.param)
    log_.error("stream.failed", request_id=request_id, exc_info=error)
    return End(request_id, position, "error", "internal", "synthesis failed")
