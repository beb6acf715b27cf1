"""Null stages: a talker and a vocoder in one that compute nothing but a tone.

`antiphon up --engine null` runs it in their place. It claims jobs, holds leases and writes audio
logs as they do, so that a gateway and its broker can be loaded on a machine too small for the
engines that would load them. There are no codec logs, so nothing can be resumed after its end, and
text that comes late is not spoken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from pydantic import Field

from ttscommon.bus import AudioWriter, Bus
from ttscommon.cluster.reporter import Reporter
from ttscommon.cluster.worker import Job, Worker
from ttscommon.process.metrics import Metrics
from ttscommon.process.service import Service, launch
from ttscommon.process.settings import ServiceSettings
from ttscommon.process.tasks import stop
from ttscommon.wire.messages import AudioChunk, End, Position, Tensor
from ttscommon.wire.replicas import Model, Replica, Voice
from ttscommon.wire.subjects import TALKER, VOCODER, Stage

FRAME_RATE_HZ: Final = 25.0
_FRAMES_PER_CHARACTER: Final = 1.6
_FIRST_FRAMES: Final = 3
_MOST_FRAMES: Final = 25
_FIRST_S: Final = 0.03
_SPEED: Final = 4.0
_LEAD_S: Final = 1.0
_VOICES: Final = (Voice("null", "Null", "en"),)


class NullSettings(ServiceSettings):
    """Read from ANTIPHON_...; see ServiceSettings."""

    model: str = Field(default="vesper", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    slots: int = Field(default=8192, ge=1, le=8192)
    # Hz; the voice that ships has 24000.
    sample_rate: int = Field(default=16_000, ge=8000, le=48_000, multiple_of=1000)


@dataclass(frozen=True)
class Step:
    """`frames` frames, `at_s` after the job was claimed."""

    at_s: float
    frames: int


def steps(frames: int) -> Iterator[Step]:
    """The chunks of a request: tiny first, doubled up to a second each.

    They come at four times the speed of sound until the listener has a second in hand, and then
    as they are needed, so that a stream is open for about as long as it is heard.
    """
    done, size = 0, _FIRST_FRAMES
    while done < frames:
        count = min(size, frames - done)
        made_s = max(0, done + count - _FIRST_FRAMES) / FRAME_RATE_HZ / _SPEED
        yield Step(_FIRST_S + max(made_s, done / FRAME_RATE_HZ - _LEAD_S), count)
        done, size = done + count, min(size * 2, _MOST_FRAMES)


class NullStages:
    """Writes one job after another into its audio log."""

    def __init__(self, bus: Bus, sample_rate: int) -> None:
        """sample_rate: Hz."""
        self._bus = bus
        self._rate = sample_rate
        self._frame_samples = round(sample_rate / FRAME_RATE_HZ)
        # 250 Hz: whole cycles in every frame, so that any two frames join.
        cycles = 250.0 * np.arange(_MOST_FRAMES * self._frame_samples) / sample_rate
        self._tone = Tensor.of((8000.0 * np.cos(2.0 * np.pi * cycles)).astype("<i2"))

    async def handle(self, job: Job) -> None:
        """Speak from wherever the log ends; returns once it has its end."""
        writer = await self._bus.audio_writer(job.request_id, job.epoch, tenant=job.request.tenant)
        try:
            if not writer.ended:
                await writer.begin(writer.listener or Position(job.request_id, writer.position))
                await writer.end(await self._speak(job, writer))
            await writer.close()
        finally:
            await writer.release()

    async def _speak(self, job: Job, writer: AudioWriter) -> End:
        loop = asyncio.get_running_loop()
        said = writer.position // self._frame_samples
        frames = max(1, int(len(job.request.text) * _FRAMES_PER_CHARACTER)) - said
        began = loop.time()
        for step in steps(frames):
            try:
                async with asyncio.timeout_at(began + step.at_s):
                    await job.cancelled.wait()
                return End(job.request_id, writer.position, "cancelled", "cancelled", "cancelled")
            except TimeoutError:
                pcm = self._tone.rows(0, step.frames * self._frame_samples)
            await writer.put(AudioChunk(job.request_id, writer.position, self._rate, pcm))
        return End(job.request_id, writer.position, "ok")


async def serve(service: Service, settings: NullSettings) -> None:
    """Take the talkers' jobs until the service stops; be seen as a talker and as a vocoder."""
    talker = await Bus.connect(settings.bus, "talker")
    vocoder = await Bus.connect(settings.bus, "vocoder")

    def report(bus: Bus, stage: Stage) -> Replica:
        model = Model(settings.model, "null", settings.sample_rate, FRAME_RATE_HZ, _VOICES)
        free = worker.free if stage is TALKER else settings.slots
        draining = service.stopping.is_set()
        return Replica(bus.worker_id, stage.name, (model,), settings.slots, free, draining=draining)

    models = [settings.model]
    metrics = Metrics(settings.model)
    service.export(metrics.registry)
    worker = Worker(
        talker, TALKER, models, settings.slots, NullStages(talker, settings.sample_rate).handle,
        lambda: report(talker, TALKER), metrics,
    )  # fmt: skip
    reporter = Reporter(vocoder, VOCODER, models, lambda: report(vocoder, VOCODER))
    try:
        await talker.verify()
        await vocoder.ensure_consumer(VOCODER, settings.model)
        await reporter.enlist()
        reports = asyncio.create_task(reporter.run())
        await worker.run(service.stopping, settings.drain_s, ready=service.announce)
        await stop(reports)
        await reporter.withdraw()
    finally:
        await talker.close()
        await vocoder.close()


if __name__ == "__main__":
    launch("null", NullSettings, serve)
