"""The talker's bus edge: jobs in, codec chunks out. The engine knows nothing of NATS."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from talker.engine.chunker import ChunkSizes
from talker.engine.engine import Caches, ChunkReady, Engine, Event, Failed, Finished
from talker.engine.scheduler import POLICIES, Limits
from talker.models.base import Arrays, ModelSpec, TalkerModel, concatenate
from talker.settings import TalkerSettings
from ttscommon import subjects
from ttscommon.bus import Bus, LogWriter
from ttscommon.errors import AntiphonError
from ttscommon.messages import CodecChunk, End, SpeechRequest, Spent, Tensor, TextPiece
from ttscommon.metrics import Metrics
from ttscommon.replicas import Model, Replica
from ttscommon.service import Service
from ttscommon.tasks import stop
from ttscommon.worker import Job, Worker

_DRAIN_RESERVE_S: Final = 2.0
_HEARTBEAT_LIMIT_S: Final = 30.0
_WARM_UP_TEXT: Final = "Nobody hears this first sentence, and that is its use."
_WARM_UP_CHORUS: Final = "Nor this."
_WARM_UP_STREAMS: Final = 8

log_ = structlog.get_logger(__name__)


async def serve(service: Service, settings: TalkerSettings) -> None:
    """Run a talker until the service stops."""
    loop = asyncio.get_running_loop()
    engine = await asyncio.to_thread(
        build_engine,
        settings,
        service.metrics,
        beat=lambda: service.heartbeat("engine"),
        died=lambda: loop.call_soon_threadsafe(service.stop),
    )
    spec = engine.spec
    service.watch("engine", _HEARTBEAT_LIMIT_S)
    engine.start()
    bus = await Bus.connect(settings.bus, "talker")
    service.ready_when("bus", lambda: bus.connected)
    try:
        await bus.ensure()
        await bus.ensure_consumer(subjects.VOCODER, spec.name)
        talker = Talker(bus, engine, spec, settings.text_timeout_s)
        worker = Worker(
            bus,
            subjects.TALKER,
            [spec.name],
            settings.slots,
            talker.handle,
            lambda: _report(bus, engine, spec, settings, worker, service),
            service.metrics,
        )
        drain_s = max(0.0, settings.drain_s - _DRAIN_RESERVE_S)
        await worker.run(service.stopping, drain_s, ready=service.announce)
    finally:
        service.unwatch("engine")
        await asyncio.to_thread(engine.stop)
        await bus.close()
    if engine.error is not None:
        raise engine.error


def build_engine(
    settings: TalkerSettings,
    metrics: Metrics,
    *,
    beat: Callable[[], None] = lambda: None,
    died: Callable[[], object] = lambda: None,
) -> Engine:
    """The engine that `settings` describe, warmed up and not yet started; raises VoiceError."""
    model, caches = load_model(settings)
    return Engine(
        model,
        caches,
        blocks=settings.kv_blocks,
        slots=settings.slots,
        metrics=metrics,
        sizes=ChunkSizes(settings.initial_codec_chunk_frames, settings.codec_chunk_frames),
        limits=Limits(settings.batch_streams, settings.batch_positions),
        policy=POLICIES[settings.policy],
        beat=beat,
        died=died,
    )


def load_model(settings: TalkerSettings) -> tuple[TalkerModel, Caches | None]:
    """The settings' model and its caches, warmed up; raises VoiceError."""
    if settings.engine == "fake":
        from talker.models.fake import FakeModel

        return FakeModel.load(settings.model, settings.fake_curve), None
    import torch

    from talker.engine.kv import PagedCaches
    from talker.models import load

    torch.set_num_threads(settings.threads)
    model = load(settings.model, settings.voice_dir)
    caches = PagedCaches(model.spec.caches, settings.kv_blocks)
    _warm_up(model, caches, settings.kv_blocks)
    return model, caches


def _warm_up(model: TalkerModel, caches: Caches, blocks: int) -> None:
    """Speak to nobody, so that no listener pays for what happens only once.

    What a step takes is then known, alone and in a batch, before the first request is admitted.
    """
    alone_s = _speak(model, caches, blocks, _WARM_UP_TEXT, streams=1)
    together_s = _speak(model, caches, blocks, _WARM_UP_CHORUS, streams=_WARM_UP_STREAMS)
    model.measured_step_s = {**together_s, **alone_s}


def _speak(
    model: TalkerModel, caches: Caches, blocks: int, text: str, streams: int
) -> dict[int, float]:
    """Speak `text` in so many streams at once; seconds of a step by streams."""
    engine = Engine(model, caches, blocks=blocks, slots=streams, metrics=Metrics())
    voice = model.spec.voices[0].id
    requests = [SpeechRequest(str(i), model.spec.name, voice, text) for i in range(streams)]
    over: list[Event] = []

    def listen(request_id: str, event: Event) -> None:
        if isinstance(event, ChunkReady):
            engine.acknowledge(request_id)
        else:
            over.append(event)

    for request in requests:
        engine.open(request, None, partial(listen, request.request_id))
    while len(over) < streams:
        engine.step()
    for event in over:
        if isinstance(event, Failed):
            raise event.error
    return engine.step_seconds


def _report(
    bus: Bus,
    engine: Engine,
    spec: ModelSpec,
    settings: TalkerSettings,
    worker: Worker,
    service: Service,
) -> Replica:
    described = Model(spec.name, spec.family, spec.sample_rate, spec.frame_rate_hz, spec.voices)
    return Replica(
        worker_id=bus.worker_id,
        stage="talker",
        models=(described,),
        slots=settings.slots,
        free=worker.free,
        batch=settings.batch_streams,
        queued=worker.queued,
        step_s=engine.step_seconds,
        frame_s=engine.render_seconds,
        draining=service.stopping.is_set(),
    )


class Talker:
    """Speaks one job after another into their codec logs."""

    def __init__(
        self, bus: Bus, engine: Engine, spec: ModelSpec, text_timeout_s: float = 120.0
    ) -> None:
        self._bus = bus
        self._engine = engine
        self._spec = spec
        self._text_timeout_s = text_timeout_s

    async def handle(self, job: Job) -> None:
        """Speak the job's request from wherever its log ends; returns once the log has its end."""
        request = job.request
        writer = await self._bus.writer(subjects.CODES, request.request_id, job.epoch)
        try:
            if writer.ended:  # whoever ended it may not have lived to queue the vocoders' job
                await self._bus.submit(subjects.VOCODER, request)
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


def _failure(request_id: str, position: int, error: Exception) -> End:
    if isinstance(error, AntiphonError):
        return End(request_id, position, "error", error.code, error.message, error.param)
    log_.error("stream.failed", request_id=request_id, exc_info=error)
    return End(request_id, position, "error", "internal", "synthesis failed")
