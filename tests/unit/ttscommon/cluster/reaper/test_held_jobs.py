"""Leases that are stored after their worker's were read, on a real broker."""

from dataclasses import replace

from tests.unit.ttscommon.cluster.reaper.test_reaper import reaping
from tests.unit.ttscommon.cluster.scene import (
    DEAD,
    REQUEST,
    Seen,
    claimed,
    hold,
    lease_of,
    leased,
    unleased,
    working,
)
from tests.waits import until
from ttscommon.bus import Bus
from ttscommon.cluster.leases import Lease
from ttscommon.cluster.reaper.failure_detector import Roster
from ttscommon.cluster.reaper.held_jobs import HeldJobs
from ttscommon.cluster.reaper.tuning import DEFAULT_TUNING
from ttscommon.wire.epochs import epoch_of
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import LEASES, TALKER

SELDOM = replace(DEFAULT_TUNING, leftovers_s=3600.0)
OFTEN = replace(DEFAULT_TUNING, leftovers_s=0.1)


async def left_by_a_dead_worker(bus: Bus, request_id: str) -> None:
    """The lease of a job that left its queue long ago."""
    lease = Lease(DEAD, "talker", request_id, epoch_of(1, 1), "$JS.ACK.nowhere")
    await bus.kv.put(LEASES, lease.key, lease.encode())


async def removed(bus: Bus, request_id: str) -> None:
    await until(lambda: unleased(bus, request_id, TALKER))


async def test_a_lease_that_comes_back_with_the_broker_is_removed(bus: Bus, other: Bus) -> None:
    await left_by_a_dead_worker(other, "before")
    async with reaping(bus, SELDOM):
        await removed(other, "before")  # the reaper looks when it is elected
        await left_by_a_dead_worker(other, "again")
        bus.link.client.abort()
        await removed(other, "again")


async def test_a_lease_that_a_dead_worker_left_is_removed_in_time(bus: Bus, other: Bus) -> None:
    async with reaping(bus, OFTEN):
        for request_id in ("first", "second", "third"):
            await left_by_a_dead_worker(other, request_id)
            await removed(other, request_id)


async def test_the_lease_of_a_job_in_work_stays(bus: Bus, other: Bus) -> None:
    jobs = Seen()
    async with reaping(bus, OFTEN), working(other, jobs, stage=TALKER):
        await bus.submit(TALKER, REQUEST)
        await jobs.next()
        await until(lambda: leased(bus, stage=TALKER))
        for number in range(3):
            await left_by_a_dead_worker(other, f"look-{number}")
            await removed(other, f"look-{number}")
            assert await leased(bus, stage=TALKER)


async def test_the_lease_of_a_job_that_waits_for_another_worker_stays(bus: Bus, other: Bus) -> None:
    lease = await hold(bus, await claimed(bus))
    async with reaping(bus, OFTEN):
        for number in range(3):
            await left_by_a_dead_worker(other, f"look-{number}")
            await removed(other, f"look-{number}")
            assert (await lease_of(bus, stage=TALKER)).receipt == lease.receipt


async def test_an_answer_of_all_workers_counts_and_of_some_does_not(bus: Bus, other: Bus) -> None:
    async with working(other, Seen(), stage=TALKER):
        roster, here = Roster(bus), Replica(other.worker_id, "talker", (), 1, 1)
        held = HeldJobs(bus, roster, DEFAULT_TUNING)
        roster.take([here])
        assert await held.take() == set()
        all_s = held.answered_s
        assert all_s > 0.0
        roster.take([here, Replica("talker-gone", "talker", (), 1, 1)])
        assert await held.take() == set()
        assert held.answered_s == all_s
