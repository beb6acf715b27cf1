"""A worker's leases: written, renewed, lost and released."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.ttscommon.worker.scene import (
    Connect,
    Seen,
    holds,
    lease_of,
    leased,
    none_queued,
    queued_jobs,
    request,
    until,
    working,
)
from ttscommon.epochs import handed_over, is_first
from ttscommon.errors import BusUnavailable, Fenced
from ttscommon.leases import Lease
from ttscommon.subjects import LEASES, VOCODER
from ttscommon.worker import Job, WorkerTuning


async def test_a_finished_job_leaves_no_lease_and_is_not_delivered_again(connect: Connect) -> None:
    bus = await connect()
    seen = Seen()
    seen.finish.set()
    async with working(bus, seen):
        await bus.submit(VOCODER, request("r"))
        assert is_first((await seen.next()).epoch)
        await until(lambda: none_queued(bus))
        await until(lambda: leased(bus, "r", False))


async def test_a_lease_that_could_not_be_released_is_released_later(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, client = await connect(), await connect()
    delete, failed = bus.kv.delete, asyncio.Event()

    async def fail_once(bucket: str, key: str, revision: int | None = None) -> bool:
        if failed.is_set():
            return await delete(bucket, key, revision)
        failed.set()
        raise BusUnavailable("an election")

    monkeypatch.setattr(bus.kv, "delete", fail_once)
    seen = Seen()
    async with working(bus, seen, tuning=WorkerTuning(heartbeat_s=0.05)):
        await client.submit(VOCODER, request("r1"))
        await seen.next()
        await until(lambda: leased(client, "r1"))
        seen.finish.set()
        await until(lambda: leased(client, "r1", False))
        assert failed.is_set()


async def test_a_lease_that_could_not_be_written_is_written_soon(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, client = await connect(), await connect()
    replace, failed = bus.kv.replace, asyncio.Event()

    async def fail_once(bucket: str, key: str, value: bytes, revision: int) -> int | None:
        if failed.is_set():
            return await replace(bucket, key, value, revision)
        failed.set()
        raise BusUnavailable("an election")

    monkeypatch.setattr(bus.kv, "replace", fail_once)
    seen = Seen()
    async with working(bus, seen, tuning=WorkerTuning(lease_retry_s=0.01)):
        await client.submit(VOCODER, request("r1"))
        await seen.next()
        await until(lambda: leased(client, "r1"))
        assert failed.is_set()
        seen.finish.set()


async def test_a_worker_that_was_paused_leaves_its_successors_lease_and_lets_go(
    connect: Connect,
) -> None:
    bus, client = await connect(), await connect()
    seen = Seen()
    async with working(bus, seen, tuning=WorkerTuning(heartbeat_s=0.2, renew_s=0.1)) as worker:
        await client.submit(VOCODER, request("r1"))
        job = await seen.next()
        await until(lambda: leased(client, "r1"))
        successor = Lease("successor", "vocoder", "r1", handed_over(job.epoch), "elsewhere")
        await client.kv.put(LEASES, successor.key, successor.encode())
        await until(lambda: holds(worker.free == 2))  # a heartbeat told it
        assert await lease_of(client, "r1") == successor
        assert await queued_jobs(client) == 1


async def test_only_leases_that_have_become_old_are_written_again(connect: Connect) -> None:
    bus, client = await connect(), await connect()
    seen = Seen()
    async with working(bus, seen, tuning=WorkerTuning(heartbeat_s=0.02, renew_s=0.5)):
        await client.submit(VOCODER, request("r1"))
        job = await seen.next()
        await until(lambda: leased(client, "r1"))
        first = job.lease.revision
        async with asyncio.timeout(10):
            while job.lease.revision == first:
                await asyncio.sleep(0.01)
        # Two dozen heartbeats lie between two writings.
        assert job.lease.revision == first + 1
        seen.finish.set()


async def test_a_worker_that_was_fenced_takes_back_a_lease_that_is_its_own(
    connect: Connect,
) -> None:
    bus, client = await connect(), await connect()

    async def lose(job: Job) -> None:
        await until(lambda: leased(client, "r1"))
        raise Fenced("another worker has it, and has ended it long ago")

    seen = Seen(lose)
    async with working(bus, seen):
        await client.submit(VOCODER, request("r1"))
        await seen.next()
        await until(lambda: leased(client, "r1", False))
