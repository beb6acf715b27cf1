"""The vocoder as a service: a codec, an engine, and a worker that claims jobs for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ttscommon import subjects
from ttscommon.bus import Bus
from ttscommon.metrics import Metrics
from ttscommon.replicas import Model, Replica
from ttscommon.service import Service
from ttscommon.worker import Job, Worker
from vocoder.codecs.base import Codec
from vocoder.engine.engine import Engine
from vocoder.engine.scheduler import Limits
from vocoder.settings import VocoderSettings
from vocoder.sounding import Sounding

_DRAIN_RESERVE_S: Final = 2.0
_HEARTBEAT_LIMIT_S: Final = 30.0


async def serve(service: Service, settings: VocoderSettings) -> None:
    """Run a vocoder until the service stops; raises what killed the engine, if anything did."""
    loop = asyncio.get_running_loop()
    engine = await asyncio.to_thread(
        build_engine,
        settings,
        service.metrics,
        beat=lambda: service.heartbeat("engine"),
        died=lambda: loop.call_soon_threadsafe(service.stop),
    )
    service.watch("engine", _HEARTBEAT_LIMIT_S)
    engine.start()
    bus = await Bus.connect(settings.bus, "vocoder")
    service.ready_when("bus", lambda: bus.connected)
    try:
        await bus.ensure()
        vocoder = Vocoder(bus, engine, settings.codes_timeout_s)
        worker = Worker(
            bus,
            subjects.VOCODER,
            [engine.spec.name],
            settings.slots,
            vocoder.handle,
            lambda: _report(bus, engine, settings, worker, service),
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
    settings: VocoderSettings,
    metrics: Metrics,
    *,
    beat: Callable[[], None] = lambda: None,
    died: Callable[[], object] = lambda: None,
) -> Engine:
    """The engine that `settings` describe, warmed up and not yet started; raises VoiceError."""
    return Engine(
        load_codec(settings),
        slots=settings.slots,
        metrics=metrics,
        limits=settings.limits,
        beat=beat,
        died=died,
    )


def load_codec(settings: VocoderSettings) -> Codec:
    """The settings' codec, warmed up; raises VoiceError."""
    if settings.engine == "fake":
        from vocoder.codecs.fake import FakeCodec

        return FakeCodec.load(settings.model, settings.fake_curve)
    import torch

    from vocoder.codecs import load

    torch.set_num_threads(settings.threads)
    codec = load(settings.model, settings.voice_dir)
    codec.warm_up(_shapes(settings.limits))
    return codec


def _shapes(limits: Limits) -> list[tuple[int, int]]:
    """(streams, frames) at the corners of what the scheduler may choose."""
    full = limits.streams, max(1, limits.frames // limits.streams)
    return [(1, 1), (1, 2), (1, limits.stream_frames), full]


def _report(
    bus: Bus, engine: Engine, settings: VocoderSettings, worker: Worker, service: Service
) -> Replica:
    spec = engine.spec
    described = Model(spec.name, spec.family, spec.sample_rate, spec.frame_rate_hz, spec.voices)
    return Replica(
        worker_id=bus.worker_id,
        stage="vocoder",
        models=(described,),
        slots=settings.slots,
        free=worker.free,
        batch=settings.batch_streams,
        queued=worker.queued,
        step_s=engine.step_seconds,
        frame_s=engine.frame_seconds,
        draining=service.stopping.is_set(),
    )


class Vocoder:
    """Sounds one job after another into their audio logs."""

    def __init__(self, bus: Bus, engine: Engine, codes_timeout_s: float) -> None:
        self._bus = bus
        self._engine = engine
        self._codes_timeout_s = codes_timeout_s

    async def handle(self, job: Job) -> None:
        """Sound the job's codes from wherever its audio ends; returns once the log has its end.

        A successor decodes all codes from the first, silently up to where its predecessor came.
        Raises Fenced when another worker has the request by now.
        """
        writer = await self._bus.writer(subjects.AUDIO, job.request_id, job.epoch)
        try:
            if not writer.ended:
                await Sounding(self._bus, self._engine, job, writer, self._codes_timeout_s).run()
            await writer.close()
        finally:
            await writer.release()
