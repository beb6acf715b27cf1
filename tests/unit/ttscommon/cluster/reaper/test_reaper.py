"""The reaper as a whole, with real workers on a real broker."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from tests.connections import Connect
from tests.unit.ttscommon.cluster.scene import (
    DEAD,
    REQUEST,
    Seen,
    answer,
    claimed,
    hold,
    lease_of,
    leased,
    request,
    unleased,
    working,
)
from tests.waits import until
from ttscommon.bus import Bus
from ttscommon.cluster.leases import Lease
from ttscommon.cluster.reaper import Reaper
from ttscommon.cluster.reaper.failure_detector import Roster, Verdict
from ttscommon.cluster.reaper.held_jobs import HeldJobs
from ttscommon.cluster.reaper.reaper import Election
from ttscommon.cluster.reaper.tuning import DEFAULT_TUNING, ReaperTuning
from ttscommon.process.service import LoopWatch
from ttscommon.wire import subjects
from ttscommon.wire.epochs import epoch_of, is_first
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import LEASES, REPLICAS, TALKER


@asynccontextmanager
async def reaping(bus: Bus, tuning: ReaperTuning = DEFAULT_TUNING) -> AsyncIterator[Reaper]:
    """An elected reaper."""
    reaper = Reaper(bus, tuning)
    running = asyncio.create_task(reaper.run())

    await until(lambda: reaper.leading)
    try:
        yield reaper
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_the_gateways_are_told_of_a_dead_worker_that_was_idle(bus: Bus, other: Bus) -> None:
    await bus.link.subscribe(subjects.gone("*"), told := AsyncMock())
    async with reaping(bus), working(other, Seen(), stage=TALKER):
        await other.link.close()
        await until(lambda: told.await_count)
    [said] = told.await_args_list
    assert said.args[0].data == other.worker_id.encode()


async def test_an_idle_worker_that_says_nothing_of_jobs_is_pinged(bus: Bus, other: Bus) -> None:
    """One of a release before; what the others say, when asked, is an answer to a ping too."""
    pings: asyncio.Queue[bytes] = asyncio.Queue()

    async def pong(message: Any) -> None:
        if not message.data:
            pings.put_nowait(message.data)
        await message.respond(b"")

    await other.link.subscribe(subjects.ping(other.worker_id), pong)
    idle = Replica(other.worker_id, "talker", (), 1, 1)
    await bus.kv.put(REPLICAS, f"talker.{other.worker_id}", idle.encode())
    often = replace(DEFAULT_TUNING, round_s=0.05, idle_round_s=0.05)
    async with reaping(bus, often):
        for _ in range(3):
            await asyncio.wait_for(pings.get(), 10)


async def test_a_dead_workers_jobs_go_on_elsewhere(bus: Bus, other: Bus, connect: Connect) -> None:
    heir_bus = await connect("heir")
    lost, heir = Seen(), Seen()
    async with reaping(bus) as reaper, working(other, lost, stage=TALKER):
        await bus.submit(TALKER, REQUEST)
        first = await lost.next()
        await until(lambda: reaper.held)
        await until(lambda: leased(bus, stage=TALKER))
        async with working(heir_bus, heir, stage=TALKER):
            loop = asyncio.get_running_loop()
            died_s = loop.time()
            await other.link.close()
            second = await heir.next()
            assert second.epoch > first.epoch
            # ack_wait would take 30 s.
            assert loop.time() - died_s < 10


async def test_jobs_of_a_worker_whose_engine_hangs_go_on_elsewhere(
    bus: Bus, other: Bus, connect: Connect
) -> None:
    """Its event loop lives, and takes nothing more until the engine turns again."""
    watch = LoopWatch(math.inf, time.monotonic())
    heir_bus = await connect("heir")
    hung, heir = Seen(), Seen()
    soon = replace(DEFAULT_TUNING, silent_s=0.5)
    async with reaping(bus, soon) as reaper, working(other, hung, stage=TALKER, watch=watch):
        await bus.submit(TALKER, REQUEST)
        first = await hung.next()
        await until(lambda: reaper.held)
        await until(lambda: leased(bus, stage=TALKER))
        watch.last_s = -math.inf
        async with working(heir_bus, heir, stage=TALKER):
            assert (await heir.next()).epoch > first.epoch
            await bus.submit(TALKER, request("next"))
            assert (await heir.next()).request_id == "next"
            await bus.submit(TALKER, request("last"))
            watch.last_s = time.monotonic()
            assert (await hung.next()).request_id == "last"


async def test_who_died_before_the_election_is_found_by_its_leases(bus: Bus, other: Bus) -> None:
    lease = await hold(bus, await claimed(bus))  # and its report has expired
    heir = Seen()
    no_orphans = replace(DEFAULT_TUNING, checks=1000)
    async with working(other, heir, stage=TALKER), reaping(bus, no_orphans):
        assert (await heir.next()).epoch > lease.epoch


async def test_a_worker_that_is_back_before_its_leases_could_be_read_keeps_its_jobs(
    bus: Bus, other: Bus, monkeypatch: Any
) -> None:
    """As when a broker comes back with an empty store: the leases are of new jobs by then."""
    jobs, asked, readable = Seen(), asyncio.Event(), asyncio.Event()
    async with reaping(bus) as reaper, working(other, jobs, stage=TALKER):
        await bus.submit(TALKER, REQUEST)
        await jobs.next()
        await until(lambda: leased(bus, stage=TALKER))
        read = reaper._handing.held_by

        async def late(worker_id: str) -> Any:
            asked.set()
            if not readable.is_set():
                raise BusUnavailable("no such bucket")
            return await read(worker_id)

        monkeypatch.setattr(reaper._handing, "held_by", late)
        monkeypatch.setattr(reaper._handing, "run", run := AsyncMock())
        reaper._hand_on(other.worker_id, Verdict.GONE)
        await asyncio.wait_for(asked.wait(), 10)
        await reaper.check(other.worker_id)  # it answers
        readable.set()
        await asyncio.wait_for(asyncio.gather(*reaper._tasks), 10)
        run.assert_not_awaited()


async def test_a_worker_that_loads_its_first_model_is_not_taken_for_dead(bus: Bus) -> None:
    """It answers no ping, and would be blamed for jobs that others lost."""
    roster = Roster(bus)
    roster.take([Replica("talker-new", "talker", (), 0, 0, loading="m")])
    assert roster.workers() == set()


async def test_a_job_without_a_lease_is_found(bus: Bus, other: Bus) -> None:
    await claimed(bus)  # by a worker that died at once
    heir = Seen()
    async with reaping(bus), working(other, heir, stage=TALKER):
        job = await heir.next()
        assert not is_first(job.epoch)


async def test_an_absence_counts_as_soon_as_it_has_lasted(bus: Bus, other: Bus) -> None:
    lease = await hold(bus, await claimed(bus))
    heir = Seen()
    once = replace(DEFAULT_TUNING, round_s=3600.0)
    async with reaping(bus, once) as reaper, working(other, heir, stage=TALKER):
        await until(lambda: DEAD in reaper.roster.workers())
        await reaper.check(DEAD)
        assert (await heir.next()).epoch > lease.epoch


QUICK = ReaperTuning(term_s=0.3, ping_s=0.1, reunion_s=0.1, leaderless_s=0.6)


async def elected(one: Election) -> bool:
    await one.stand()
    return one.leading


async def test_one_of_two_is_elected_as_long_as_it_renews(bus: Bus, other: Bus) -> None:
    await answer(bus, subjects.ping(bus.worker_id), lambda: b"")
    first, second = Election(bus, QUICK), Election(other, QUICK)
    await first.stand()
    for _ in range(5):
        await second.stand()
        await first.stand()
    assert (first.leading, second.leading) == (True, False)
    await until(lambda: elected(second))
    assert not first.leading
    assert not await elected(first)


async def test_a_holder_that_is_gone_is_replaced_within_its_term(bus: Bus, other: Bus) -> None:
    patient = ReaperTuning(term_s=60.0, ping_s=0.1, reunion_s=0.1)
    await Election(other, patient).stand()
    await other.close()
    mine = Election(bus, patient)
    await until(lambda: elected(mine))


async def test_the_elected_one_goes_on_and_no_other_is_while_the_bucket_has_no_leader(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, late = Election(bus, QUICK), Election(bus, QUICK)
    await mine.stand()
    monkeypatch.setattr(bus.kv, "entry", AsyncMock(side_effect=BusUnavailable("no leader")))
    for _ in range(3):
        assert await elected(mine)
        assert not await elected(late)

    async def given_up() -> bool:
        return not await elected(mine)

    await until(given_up)  # no election takes for ever


# Leases that are stored after their worker's were read

SELDOM = replace(DEFAULT_TUNING, leftovers_s=3600.0)
OFTEN = replace(DEFAULT_TUNING, leftovers_s=0.1)


async def left_by_a_dead_worker(bus: Bus, request_id: str) -> None:
    """The lease of a job that left its queue long ago."""
    lease = Lease(DEAD, "talker", request_id, epoch_of(1, 1), "$JS.ACK.nowhere")
    await bus.kv.put(LEASES, lease.key, lease.encode())


async def removed(bus: Bus, request_id: str) -> None:
    await until(lambda: unleased(bus, request_id, TALKER))


async def test_a_lease_is_removed_at_an_election_a_return_of_the_broker_and_a_death(
    bus: Bus, other: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    await left_by_a_dead_worker(other, "before")
    async with reaping(bus, SELDOM) as reaper:
        await removed(other, "before")
        await left_by_a_dead_worker(other, "again")
        bus.link.client.abort()
        await removed(other, "again")
        await left_by_a_dead_worker(other, "done")
        expect = Mock(wraps=reaper._leftovers.expect)
        monkeypatch.setattr(reaper._leftovers, "expect", expect)
        reaper._hand_on("talker-1", Verdict.GONE)
        await removed(other, "done")
        expect.assert_called()


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
