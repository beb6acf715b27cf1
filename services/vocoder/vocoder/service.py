"""The vocoder as a service: a codec, an engine, and a worker that claims jobs for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ttscommon.bus import AudioWriter, Bus
from ttscommon.cluster.worker import Handler, Job
from ttscommon.engine.interface import Build
from ttscommon.engine.lazy import keep_memory
from ttscommon.engine.stage import serve_stage
from ttscommon.engine.stage_job import EventRouter, ending
from ttscommon.process.metrics import Metrics
from ttscommon.process.service import Service
from ttscommon.process.startup import Startup
from ttscommon.wire import subjects
from ttscommon.wire.epochs import is_first
from ttscommon.wire.messages import End, Position
from ttsfamilies.base.codec.base import Codec
from ttsfamilies.base.codec.silences import Silences
from vocoder.engine.engine import Engine
from vocoder.engine.interface import SoundEngine
from vocoder.engine.scheduler import BatchLimits
from vocoder.engine.stream import Event
from vocoder.settings import VocoderSettings
from vocoder.vocode_job import LISTENER_S, VocodeJob


async def serve(
    service: Service,
    settings: VocoderSettings,
    build: Callable[[VocoderSettings], Build[SoundEngine]] = lambda own: partial(build_engine, own),
) -> None:
    """Run a vocoder until the service stops; raises what killed the engine, if anything did.

    build: of one model's engine, if that is elsewhere.
    """
    await serve_stage(service, settings, subjects.VOCODER, build, _handler)


def _handler(settings: VocoderSettings, bus: Bus, engine: SoundEngine) -> Handler:
    return Vocoder(bus, engine, settings.codes_timeout_s).handle


def build_engine(
    settings: VocoderSettings,
    metrics: Metrics,
    *,
    beat: Callable[[], None] = lambda: None,
    died: Callable[[], object] = lambda: None,
) -> Engine:
    """The engine that `settings` describe, warmed up and not yet started.

    Raises VoiceError or DeviceError.
    """
    codec = load_codec(settings, metrics.startup)
    return Engine(
        codec,
        slots=settings.slots,
        metrics=metrics,
        limits=settings.limits(codec.spec.frame_rate_hz),
        beat=beat,
        died=died,
    )


def load_codec(settings: VocoderSettings, startup: Startup | None = None) -> Codec:
    """The settings' codec, warmed up; raises VoiceError or DeviceError."""
    startup = startup or Startup()
    if settings.engine == "fake":
        from ttsfamilies.fake.codec import FakeCodec

        return FakeCodec.load(settings.model, settings.fake_curve)
    with startup.part("import"):
        import torch

        from ttsfamilies.codecs import load

    torch.set_num_threads(settings.threads)
    keep_memory()
    with startup.part("load"):
        codec = load(
            settings.model,
            settings.voice_dir,
            settings.windows,
            device=settings.device,
            limits=settings.device_limits,
            memory_bytes=settings.state_mb << 20,
            tensor_cores=settings.tensor_cores,
        )
    with startup.part("warm_up"):
        codec.warm_up(_shapes(settings.limits(codec.spec.frame_rate_hz)))
    codec.spec = replace(codec.spec, gain_db=settings.gain_db)
    return codec if codec.silences else Silences(codec)


def _shapes(limits: BatchLimits) -> list[tuple[int, int]]:
    """(streams, frames) at the corners of what the scheduler may choose."""
    full = limits.streams, max(1, limits.frames // limits.streams)
    return [(1, 1), (1, 2), (1, limits.stream_frames), full]


class Vocoder:
    """Decodes one job after another into their audio logs."""

    def __init__(self, bus: Bus, engine: SoundEngine, codes_timeout_s: float) -> None:
        self._bus = bus
        self._engine = engine
        self._codes_timeout_s = codes_timeout_s
        self._router: EventRouter[Event] = EventRouter()
        engine.listen(self._router)

    async def handle(self, job: Job) -> None:
        """Decode the job's codes from where its listener stands; returns once the log has its end.

        A successor decodes, silently up to there, what the codec needs for it: a bounded context or
        all codes. A log that has its end is sounded again if a listener lacks something of it.
        Raises Fenced when another worker has the request by now.
        """
        request = job.request
        fresh = is_first(job.epoch) and not request.remake
        writer = await self._bus.audio_writer(
            job.request_id, job.epoch, fresh=fresh, tenant=request.tenant
        )
        async with ending(job, writer):
            start = Position(job.request_id, 0) if fresh else writer.listener
            if start is None and request.remake:
                start = await self._asked_from(writer)
            if writer.remaking is None or _lacks(start, writer.remaking):
                vocoding = VocodeJob(
                    self._bus, self._engine, self._router, job, writer, self._codes_timeout_s
                )
                await vocoding.run(start)

    async def _asked_from(self, writer: AudioWriter) -> Position | None:
        """Whom something is made again for; a busy gateway may take a while to say so."""
        try:
            async with asyncio.timeout(LISTENER_S):
                return await writer.heard()
        except TimeoutError:
            return None


def _lacks(listener: Position | None, end: End) -> bool:
    """Whether there is a listener who has not heard all of it."""
    return listener is not None and listener.start < end.start
