"""How a job leaves a worker: failures, stale words, logs that cannot be written."""

import asyncio

import numpy as np
import pytest

from tests.unit.ttscommon.cluster.scene import (
    Seen,
    claim,
    ended,
    lease_of,
    none_queued,
    request,
    work,
    working,
)
from tests.waits import until
from ttscommon.bus import Bus
from ttscommon.cluster.leases import Lease
from ttscommon.cluster.worker import Job, WorkerTuning
from ttscommon.wire.epochs import epoch_of
from ttscommon.wire.errors import Fenced, LogUnwritable
from ttscommon.wire.messages import AudioChunk, End, Position, Tensor
from ttscommon.wire.subjects import LEASES, VOCODER


async def test_a_stale_holder_does_not_tear_a_job_from_its_successor(bus: Bus, other: Bus) -> None:
    """The broker honours a NAK on the receipt of an earlier delivery."""
    seen = Seen()
    async with working(bus, seen, slots=1, drain_s=0.05):
        job = await work(other, seen)
        await job.message.hand_on()  # as the reaper does that takes the worker for dead
        second = await claim(other)
        epoch = second.epoch(job.request)
        healthy = Lease("healthy", "vocoder", "r", epoch, second.receipt)
        await other.kv.put(LEASES, healthy.key, healthy.encode())
    # The stale worker has drained. Nobody is given the job a third time.
    backlog = await other.queue.backlog(VOCODER, "m")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await other.queue.feed(VOCODER, "m").next()
    assert backlog.waiting == 0
    assert await lease_of(other) == healthy


async def test_a_message_that_a_later_one_replaced_is_thrown_away(bus: Bus, other: Bus) -> None:
    async def lose(job: Job) -> None:
        owner = epoch_of(job.message.sequence + 1, 1)
        raise Fenced("a later job of this request has the log", owner=owner)

    seen = Seen(lose)
    async with working(bus, seen):
        await other.submit(VOCODER, request("r"))
        await seen.next()
        await until(lambda: none_queued(other))


async def test_a_job_that_fails_everywhere_ends_in_an_error(bus: Bus) -> None:
    calls = 0

    async def fail(job: Job) -> None:
        nonlocal calls
        calls += 1
        raise RuntimeError("a bug")

    tuning = WorkerTuning(most_failures=3, retry_s=0.01)
    async with working(bus, fail, tuning=tuning):
        await bus.submit(VOCODER, request("r"))
        end = await ended(bus)
        assert (end.outcome, end.code) == ("error", "internal")
        assert calls == 3
        await until(lambda: none_queued(bus))


async def test_failures_with_progress_between_them_do_not_add_up(bus: Bus) -> None:
    calls = 0

    async def progress_then_fail(job: Job) -> None:
        nonlocal calls
        calls += 1
        writer = await bus.audio_writer(job.request_id, job.epoch)
        try:
            await writer.begin(writer.listener or Position("r", writer.position))
            if calls == 6:
                await writer.end(End(job.request_id, writer.position, "ok"))
                await writer.close()
                return
            pcm = Tensor.of(np.zeros(10, np.int16))
            await writer.put(AudioChunk(job.request_id, writer.position, 16_000, pcm))
            await writer.close()
            raise RuntimeError("a worker that stumbles now and then")
        finally:
            await writer.release()

    tuning = WorkerTuning(most_failures=3, retry_s=0.01)
    async with working(bus, progress_then_fail, tuning=tuning):
        await bus.submit(VOCODER, request("r"))
        end = await ended(bus)
        assert (end.outcome, end.start) == ("ok", 50)


async def test_a_log_that_cannot_be_written_ends_its_request_at_once(bus: Bus, other: Bus) -> None:
    async def refused(job: Job) -> None:
        raise LogUnwritable("AUDIO refuses the record")

    async with working(bus, refused):
        await other.submit(VOCODER, request("r"))
        end = await ended(other)
        assert (end.outcome, end.code) == ("error", "bus_unavailable")
        await until(lambda: none_queued(other))
