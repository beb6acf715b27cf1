"""A worker's leases, written, lost and released, and how it notices that it was away."""

import asyncio
import time
from itertools import chain, repeat
from typing import Any
from unittest.mock import DEFAULT, AsyncMock

import pytest

from tests.unit.ttscommon.cluster.scene import (
    Seen,
    lease_of,
    leased,
    queued_jobs,
    request,
    unleased,
    work,
    working,
)
from tests.waits import until
from ttscommon.bus import Bus
from ttscommon.cluster.leases import HeldLease, Lease
from ttscommon.cluster.worker import Job, WorkerTuning
from ttscommon.cluster.worker.leasekeeper import absence
from ttscommon.cluster.worker.tuning import SuspensionTuning
from ttscommon.wire.epochs import handed_over
from ttscommon.wire.errors import BusUnavailable, Fenced
from ttscommon.wire.subjects import LEASES, VOCODER, leases_of_job


def renewing(job: Job) -> AsyncMock:
    """What tells the broker from now on that the job is worked on."""
    job.message.renew = told = AsyncMock(wraps=job.message.renew)  # type: ignore[method-assign]
    return told


def failing_once(bus: Bus, method: str, monkeypatch: pytest.MonkeyPatch) -> AsyncMock:
    """The bucket elects a leader at the first call of `method`."""
    said = chain([BusUnavailable("an election")], repeat(DEFAULT))
    failing = AsyncMock(wraps=getattr(bus.kv, method), side_effect=said)
    monkeypatch.setattr(bus.kv, method, failing)
    return failing


async def test_a_lease_that_could_not_be_released_is_released_later(
    bus: Bus, other: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = failing_once(bus, "purge", monkeypatch)
    seen = Seen()
    async with working(bus, seen, tuning=WorkerTuning(heartbeat_s=0.05)):
        await work(other, seen)
        seen.finish.set()
        await until(lambda: unleased(other))
        assert failed.await_count > 1


async def test_a_lease_that_could_not_be_written_is_written_soon(
    bus: Bus, other: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = failing_once(bus, "replace_among", monkeypatch)
    seen = Seen()
    async with working(bus, seen, tuning=WorkerTuning(lease_retry_s=0.01)):
        await work(other, seen)
        assert failed.await_count > 1


async def test_a_paused_worker_leaves_its_successors_lease(bus: Bus, other: Bus) -> None:
    seen = Seen()
    suspension = SuspensionTuning(tick_s=0.01, audit_s=0.2)
    async with working(bus, seen, tuning=WorkerTuning(suspension=suspension)) as worker:
        job = await work(other, seen)
        successor = Lease("successor", "vocoder", "r", handed_over(job.epoch), "elsewhere")
        await HeldLease(successor).take(other)
        await until(lambda: worker.free == 2)  # an audit told it
        assert await lease_of(other) == successor
        assert await queued_jobs(other) == 1


async def test_a_lease_is_written_once_however_long_the_job_lasts(bus: Bus, other: Bus) -> None:
    seen = Seen()
    often = WorkerTuning(heartbeat_s=0.01, suspension=SuspensionTuning(tick_s=0.01, audit_s=0.02))
    async with working(bus, seen, tuning=often):
        job = await work(other, seen)
        renewed = renewing(job)
        await until(lambda: renewed.await_count > 20)
        (entry,) = await other.kv.latest(LEASES, leases_of_job("vocoder", "r"))
        assert entry.revision == job.lease.revision == 1


async def test_no_job_waits_until_the_broker_was_told_of_another(bus: Bus, other: Bus) -> None:
    seen, stuck = Seen(), asyncio.Event()
    async with working(bus, seen, slots=2, tuning=WorkerTuning(heartbeat_s=0.02)):
        first, second = [await work(other, seen, name) for name in ("stuck", "other")]
        first.message.renew = stuck.wait  # type: ignore[method-assign, assignment]
        renewed = renewing(second)
        await until(lambda: renewed.await_count > 0)
        stuck.set()


async def test_a_fenced_worker_takes_back_a_lease_that_is_its_own(bus: Bus, other: Bus) -> None:
    async def lose(job: Job) -> None:
        await until(lambda: leased(other))
        lost.set()
        raise Fenced("another worker has it, and has ended it long ago")

    lost = asyncio.Event()
    async with working(bus, lose):
        await other.submit(VOCODER, request("r"))
        await lost.wait()
        await until(lambda: unleased(other))


NEVER_S = 3600.0


async def test_a_process_that_was_paused_notices_it(bus: Bus) -> None:
    tuning = SuspensionTuning(tick_s=0.01, late_s=0.1, audit_s=NEVER_S)
    with bus.link.reconnections() as returned:
        waiting = asyncio.create_task(absence(returned, tuning))
        await asyncio.sleep(0)
        time.sleep(0.3)  # nothing of this process runs
        await asyncio.wait_for(waiting, 10)


@pytest.mark.own_broker
async def test_a_process_that_was_cut_off_notices_it(bus: Bus, broker: Any) -> None:
    tuning = SuspensionTuning(tick_s=NEVER_S, late_s=NEVER_S, audit_s=NEVER_S)
    with bus.link.reconnections() as returned:
        waiting = asyncio.create_task(absence(returned, tuning))
        broker.children["broker"].kill()
        await asyncio.wait_for(waiting, 20)
