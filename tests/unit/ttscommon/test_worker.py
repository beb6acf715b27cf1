"""Workers and the reaper over a real broker: claims, failures, cancellation, drain, death."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ttscommon.bus import Bus
from ttscommon.errors import BusUnavailable, Fenced
from ttscommon.messages import End, SpeechRequest
from ttscommon.metrics import Metrics
from ttscommon.reaper import Reaper
from ttscommon.replicas import Lease, Replica
from ttscommon.subjects import AUDIO, JOBS, LEASES, REPLICAS, VOCODER
from ttscommon.worker import Job, Worker, WorkerTuning

TUNING = WorkerTuning()

Handle = Callable[[Job], Awaitable[None]]


class Seen:
    """Jobs a worker got, as they come."""

    def __init__(self, handle: Handle | None = None) -> None:
        self.jobs: asyncio.Queue[Job] = asyncio.Queue()
        self.finish = asyncio.Event()
        self._handle = handle

    async def __call__(self, job: Job) -> None:
        self.jobs.put_nowait(job)
        if self._handle is not None:
            await self._handle(job)
        else:
            await self.finish.wait()

    async def next(self) -> Job:
        return await asyncio.wait_for(self.jobs.get(), 15)


@asynccontextmanager
async def working(
    bus: Bus,
    handle: Handle,
    *,
    slots: int = 2,
    drain_s: float = 5.0,
    tuning: WorkerTuning = TUNING,
) -> AsyncIterator[Worker]:
    def report() -> Replica:
        return Replica(bus.worker_id, "vocoder", (), slots, worker.free)

    worker = Worker(bus, VOCODER, ["m"], slots, handle, report, Metrics(), tuning)
    stopping = asyncio.Event()
    task = asyncio.create_task(worker.run(stopping, drain_s))
    try:
        yield worker
    finally:
        stopping.set()
        await asyncio.wait_for(task, 15)


@pytest.fixture
async def connect(broker: Any) -> AsyncIterator[Callable[[], Awaitable[Bus]]]:
    buses: list[Bus] = []

    async def connected() -> Bus:
        bus = await Bus.connect(broker.bus, "worker")
        await bus.ensure()
        await bus.ensure_consumer(VOCODER, "m")
        buses.append(bus)
        return bus

    yield connected
    for bus in buses:
        if not bus.link.closed:
            await bus.close()


Connect = Callable[[], Awaitable[Bus]]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(15):
        while not await condition():
            await asyncio.sleep(0.01)


async def pending_jobs(bus: Bus) -> int:
    info = await bus.link.jetstream.consumer_info("JOBS", VOCODER.durable("m"))
    return int((info.num_pending or 0) + (info.num_ack_pending or 0))


def request(name: str) -> SpeechRequest:
    return SpeechRequest(name, "m", "v", "hello")


async def test_a_worker_takes_no_more_jobs_than_it_has_slots(connect: Connect) -> None:
    bus, client = await connect(), await connect()
    seen = Seen()
    async with working(bus, seen, slots=2) as worker:
        for i in range(5):
            await client.submit(VOCODER, request(f"r{i}"))
        for _ in range(2):
            await seen.next()
        assert worker.free == 0
        assert await pending_jobs(client) == 5
        seen.finish.set()
        for _ in range(3):
            await seen.next()


async def test_a_job_that_the_broker_forgot_to_have_given_goes_on(connect: Connect) -> None:
    bus, client = await connect(), await connect()
    seen = Seen()
    async with working(bus, seen) as worker:
        await client.submit(VOCODER, request("r1"))
        first = await seen.next()
        given = first.message
        await client.link.jetstream.delete_consumer(JOBS, VOCODER.durable("m"))
        await client.ensure_consumer(VOCODER, "m")  # knows nothing of any delivery
        await until(lambda: _is(first.message is not given))
        assert seen.jobs.empty()
        assert worker.free == 1
        seen.finish.set()
        await until(lambda: _none_pending(client))


async def test_who_was_fenced_leaves_the_lease_to_its_successor(connect: Connect) -> None:
    bus, client = await connect(), await connect()

    async def lose(job: Job) -> None:
        lease = Lease("successor", "vocoder", job.request_id, 2, "x")
        await until(lambda: _has_lease(client, job.request_id))
        await client.kv.put(LEASES, lease.key, lease.encode())
        raise Fenced("somebody else has it")

    seen = Seen(lose)
    async with working(bus, seen) as worker:
        await client.submit(VOCODER, request("r1"))
        await seen.next()
        await until(lambda: _is(worker.free == 2))
        assert await _has_lease(client, "r1")


async def test_who_was_fenced_takes_back_a_lease_that_is_its_own(connect: Connect) -> None:
    bus, client = await connect(), await connect()

    async def lose(job: Job) -> None:
        await until(lambda: _has_lease(client, job.request_id))
        raise Fenced("somebody else has it, and has ended it long ago")

    seen = Seen(lose)
    async with working(bus, seen):
        await client.submit(VOCODER, request("r1"))
        await seen.next()
        await until(lambda: _leased(client, False))


async def _has_lease(bus: Bus, request_id: str) -> bool:
    return await bus.kv.get(LEASES, f"vocoder.{request_id}") is not None


async def _is(fact: bool) -> bool:
    return fact


async def _none_pending(bus: Bus) -> bool:
    return await pending_jobs(bus) == 0


async def test_a_lease_that_could_not_be_released_is_released_later(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, client = await connect(), await connect()
    delete, failed = bus.kv.delete, asyncio.Event()

    async def fail_once(bucket: str, key: str) -> None:
        if failed.is_set():
            await delete(bucket, key)
        else:
            failed.set()
            raise BusUnavailable("an election")

    monkeypatch.setattr(bus.kv, "delete", fail_once)
    seen = Seen()
    async with working(bus, seen, tuning=WorkerTuning(heartbeat_s=0.05)):
        await client.submit(VOCODER, request("r1"))
        await seen.next()
        await until(lambda: _leased(client, True))
        seen.finish.set()
        await until(lambda: _leased(client, False))
        assert failed.is_set()


async def _leased(bus: Bus, wanted: bool) -> bool:
    return bool(await bus.kv.all(LEASES)) == wanted


async def test_a_finished_job_leaves_no_lease_and_is_not_delivered_again(connect: Connect) -> None:
    bus = await connect()
    seen = Seen()
    seen.finish.set()
    async with working(bus, seen):
        await bus.submit(VOCODER, request("r"))
        assert (await seen.next()).epoch == 1

        async def clean() -> bool:
            leases = await bus.kv.all(LEASES)
            return not leases and await pending_jobs(bus) == 0

        await until(clean)


async def test_a_cancel_reaches_the_job_and_a_tombstone_whoever_claims_it_later(
    connect: Connect,
) -> None:
    bus, client = await connect(), await connect()
    seen = Seen(lambda job: _wait(job.cancelled))
    async with working(bus, seen):
        await client.submit(VOCODER, request("early"))
        job = await seen.next()
        await client.cancel("early", "gone")
        await asyncio.wait_for(job.cancelled.wait(), 5)
        await client.cancel("late", "gone")
        await client.submit(VOCODER, request("late"))
        await asyncio.wait_for((await seen.next()).cancelled.wait(), 5)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def test_a_job_that_fails_everywhere_ends_in_an_error(connect: Connect) -> None:
    bus = await connect()

    async def fail(job: Job) -> None:
        raise RuntimeError("a bug")

    tuning = WorkerTuning(most_deliveries=2)
    async with working(bus, fail, tuning=tuning), bus.reader(AUDIO, "r") as reader:
        await bus.submit(VOCODER, request("r"))
        record = await asyncio.wait_for(anext(reader), 15)
        assert isinstance(record, End)
        assert (record.outcome, record.code) == ("error", "internal")


async def test_junk_in_the_queue_is_thrown_away_and_the_worker_lives(connect: Connect) -> None:
    bus = await connect()
    seen = Seen()
    seen.finish.set()
    async with working(bus, seen, slots=1):
        await bus.link.jetstream.publish(VOCODER.job("m", "r"), b"\xc1 junk")
        await bus.submit(VOCODER, request("r"))
        assert (await seen.next()).request_id == "r"


async def test_a_drained_worker_hands_on_what_it_could_not_finish(connect: Connect) -> None:
    first, second = await connect(), await connect()
    stuck, heir = Seen(), Seen()
    async with working(first, stuck, drain_s=0.05):
        await first.submit(VOCODER, request("r"))
        await stuck.next()
    assert await first.kv.get(REPLICAS, first.worker_id) is None
    heir.finish.set()
    async with working(second, heir):
        assert (await heir.next()).epoch == 2


async def test_a_successor_assumes_that_playback_began_long_ago(connect: Connect) -> None:
    bus = await connect()
    seen = Seen()
    asked_s = time.time() - 3.0
    await bus.submit(VOCODER, SpeechRequest("r", "m", "v", "hello", created_unix_s=asked_s))
    pull = await bus.link.jetstream.pull_subscribe_bind(durable=VOCODER.durable("m"), stream=JOBS)
    await (await pull.fetch(1, timeout=5.0))[0].nak()
    seen.finish.set()
    async with working(bus, seen):
        job = await seen.next()
        assert job.epoch == 2
        assert job.playback_start_s is not None
        assert time.monotonic() - job.playback_start_s >= 3.0


async def test_a_dead_workers_jobs_go_on_elsewhere_at_once(connect: Connect, broker: Any) -> None:
    first, second, overseer = await connect(), await connect(), await connect()
    lost, heir = Seen(), Seen()
    reaper = Reaper(overseer)
    reaping = asyncio.create_task(reaper.run())
    doomed = asyncio.create_task(_work(first, lost))
    try:
        await first.submit(VOCODER, request("r"))
        await lost.next()
        heir.finish.set()

        async def overseen() -> bool:
            return reaper.leading and bool(reaper.leases)

        await until(overseen)
        async with working(second, heir):
            loop = asyncio.get_running_loop()
            died_s = loop.time()
            await first.link.close()
            assert (await heir.next()).epoch == 2
            # ack_wait would take 30 s.
            assert loop.time() - died_s < 10
    finally:
        for task in (doomed, reaping):
            task.cancel()
        await asyncio.gather(doomed, reaping, return_exceptions=True)


async def _work(bus: Bus, handle: Handle) -> None:
    report = Replica(bus.worker_id, "vocoder", (), 1, 0)
    await Worker(bus, VOCODER, ["m"], 1, handle, lambda: report, Metrics()).run(asyncio.Event(), 0)
