"""A worker over a real broker: claims, cancellation, drain, and how jobs leave it."""

import asyncio
import time
from unittest.mock import AsyncMock

import msgspec
import numpy as np
import pytest

from tests.unit.ttscommon.cluster.scene import (
    Seen,
    claim,
    ended,
    lease_of,
    none_queued,
    queued_jobs,
    request,
    unleased,
    work,
    working,
)
from tests.waits import TIMEOUT_S, until
from ttscommon.bus import Bus, JobFeed
from ttscommon.cluster.leases import Lease
from ttscommon.cluster.worker import Job, WorkerTuning
from ttscommon.cluster.worker.tuning import SuspensionTuning
from ttscommon.wire import subjects
from ttscommon.wire.epochs import epoch_of, is_first
from ttscommon.wire.errors import Fenced, LogUnwritable
from ttscommon.wire.messages import AudioChunk, End, Listening, Position, SpeechRequest, Tensor
from ttscommon.wire.subjects import LEASES, REPLICAS, VOCODER


async def test_a_worker_takes_no_more_jobs_than_it_has_slots(bus: Bus, other: Bus) -> None:
    seen = Seen()
    async with working(bus, seen, slots=2) as worker:
        for i in range(5):
            await other.submit(VOCODER, request(f"r{i}"))
        for _ in range(2):
            await seen.next()
        assert worker.free == 0
        assert await queued_jobs(other) == 5
        assert await other.queue.waiting(VOCODER, "m") == 3
        seen.finish.set()
        for _ in range(3):
            await seen.next()


async def test_a_job_that_the_broker_forgot_to_have_given_goes_on(bus: Bus, other: Bus) -> None:
    seen = Seen()
    async with working(bus, seen) as worker:
        first = await work(other, seen)
        given = first.message
        link = other.link
        await link.jetstream.delete_consumer(
            link.name(VOCODER.stream), link.name(VOCODER.durable("m"))
        )
        await other.setup.ensure_consumer(VOCODER, "m")  # knows nothing of any delivery
        await until(lambda: first.message is not given)
        assert seen.jobs.empty()
        assert worker.free == 1
        seen.finish.set()
        await until(lambda: none_queued(other))


async def test_a_drained_worker_hands_on_what_it_could_not_finish(bus: Bus, other: Bus) -> None:
    stuck, heir = Seen(), Seen()
    async with working(bus, stuck, drain_s=0.05):
        await bus.submit(VOCODER, request("r"))
        before = await stuck.next()
    assert await bus.kv.get(REPLICAS, f"vocoder.{bus.worker_id}") is None
    left = await lease_of(other)
    assert (left.held, left.deaths) == (False, 0)
    heir.finish.set()
    async with working(other, heir):
        assert (await heir.next()).epoch > before.epoch
        await until(lambda: unleased(other))


async def test_a_cancel_reaches_a_job_and_whoever_claims_it_later(bus: Bus, other: Bus) -> None:
    seen = Seen(lambda job: job.cancelled.wait())
    async with working(bus, seen):
        job = await work(other, seen, "early")
        await other.cancel("early", "gone")
        await asyncio.wait_for(job.cancelled.wait(), TIMEOUT_S)
        await other.cancel("late", "gone")
        await other.submit(VOCODER, request("late"))
        await asyncio.wait_for((await seen.next()).cancelled.wait(), TIMEOUT_S)


async def test_a_cancel_that_is_said_while_a_worker_takes_the_job_reaches_it(
    bus: Bus, other: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its word comes before the worker subscribes, and its tombstone after the worker looked."""
    said, looked = asyncio.Event(), asyncio.Event()
    put, is_cancelled = other.kv.put, bus.is_cancelled

    async def put_late(bucket: str, key: str, value: bytes) -> int:
        await other.link.client.flush()
        said.set()
        await looked.wait()
        return await put(bucket, key, value)

    async def look(request_id: str) -> bool:
        found = await is_cancelled(request_id)
        looked.set()
        return found

    monkeypatch.setattr(other.kv, "put", put_late)
    monkeypatch.setattr(bus, "is_cancelled", look)
    seen = Seen(lambda job: job.cancelled.wait())
    async with working(bus, seen):
        cancelling = asyncio.create_task(other.cancel("r", "gone"))
        await said.wait()
        await other.submit(VOCODER, request("r"))
        job = await seen.next()
        await asyncio.wait_for(job.cancelled.wait(), TIMEOUT_S)
        await cancelling


async def test_a_successor_assumes_that_playback_began_long_ago(bus: Bus) -> None:
    seen = Seen()
    asked_s = time.time() - 3.0
    await bus.submit(VOCODER, SpeechRequest("r", "m", "v", "hello", created_unix_s=asked_s))
    await (await claim(bus)).hand_on()
    async with working(bus, seen):
        job = await seen.next()
        assert not is_first(job.epoch)
        assert job.request.again
        assert job.playback_start_s is not None
        assert time.monotonic() - job.playback_start_s >= 3.0


async def test_the_next_job_comes_in_while_a_spoken_one_is_committed(bus: Bus, other: Bus) -> None:
    committed = asyncio.Event()

    async def speak(job: Job) -> None:
        job.spoken()
        await committed.wait()

    seen = Seen(speak)
    async with working(bus, seen, slots=1) as worker:
        for name in ("first", "second"):
            await work(other, seen, name)
        assert set(worker.active) == {"first", "second"}
        assert worker.free == 0
        committed.set()
        await until(lambda: none_queued(other))


async def test_what_nobody_hears_and_nobody_can_resume_is_cancelled(bus: Bus, other: Bus) -> None:
    seen = Seen()
    unheard = msgspec.structs.replace(request("unheard"), listener_timeout_s=0.3)
    heard = msgspec.structs.replace(request("heard"), listener_timeout_s=0.3)
    async with working(bus, seen, slots=3, tuning=WorkerTuning(listeners_s=0.02)):
        for one in (unheard, heard, request("resumable")):
            await other.submit(VOCODER, one)
        jobs = {job.request_id: job for job in [await seen.next() for _ in range(3)]}
        while not jobs["unheard"].cancelled.is_set():
            await other.link.send(subjects.listening("heard"), Listening("heard", "gateway-1"))
            await asyncio.sleep(0.02)
        assert not jobs["heard"].cancelled.is_set()
        assert not jobs["resumable"].cancelled.is_set()


async def test_a_paused_worker_first_hears_what_gateways_said_meanwhile(
    bus: Bus, other: Bus
) -> None:
    seen = Seen()
    tuning = WorkerTuning(listeners_s=0.02, suspension=SuspensionTuning(late_s=0.2))
    async with working(bus, seen, tuning=tuning):
        await other.submit(VOCODER, msgspec.structs.replace(request("r"), listener_timeout_s=1.0))
        job = await seen.next()
        time.sleep(1.3)  # the process stands still, and its gateway's words wait
        for _ in range(3):  # looks after the pause
            await asyncio.sleep(0.05)
            assert not job.cancelled.is_set()
        await other.link.send(subjects.listening("r"), Listening("r", "gateway"))
        await asyncio.wait_for(job.cancelled.wait(), TIMEOUT_S)  # nothing was said any more


# How a job leaves a worker: failures, stale words, logs that cannot be written


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
    # The stale worker has drained. No worker is given the job a third time.
    backlog = await other.queue.backlog(VOCODER, "m")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await JobFeed(other.link, VOCODER, "m").next()
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
    fail = AsyncMock(side_effect=RuntimeError("a bug"))
    tuning = WorkerTuning(most_failures=3, retry_s=0.01)
    async with working(bus, fail, tuning=tuning):
        await bus.submit(VOCODER, request("r"))
        end = await ended(bus)
        assert (end.outcome, end.code) == ("error", "internal")
        assert fail.await_count == 3
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
    async with working(bus, AsyncMock(side_effect=LogUnwritable("AUDIO refuses the record"))):
        await other.submit(VOCODER, request("r"))
        end = await ended(other)
        assert (end.outcome, end.code) == ("error", "bus_unavailable")
        await until(lambda: none_queued(other))
