"""Jobs that nobody holds, on a real broker: queued again, and only those."""

import asyncio
from typing import Any
from unittest.mock import ANY, AsyncMock

import pytest

from tests.unit.ttscommon.cluster.scene import (
    DEAD,
    REQUEST,
    answer,
    claim,
    claimed,
    hold,
    lease_of,
    report_talker,
)
from tests.waits import until
from ttscommon.bus import Bus
from ttscommon.cluster.reaper.failure_detector import Roster
from ttscommon.cluster.reaper.handing import HandingOn
from ttscommon.cluster.reaper.held_jobs import HeldJobs
from ttscommon.cluster.reaper.orphans import Orphans
from ttscommon.cluster.reaper.tuning import ReaperTuning
from ttscommon.wire import subjects
from ttscommon.wire.epochs import Holding
from ttscommon.wire.messages import End, SpeechRequest
from ttscommon.wire.subjects import CODES, TALKER

QUICK = ReaperTuning(holder_s=0.05, checks=2, answers_s=0.05)


class Eyes:
    """A reaper's, as far as orphans go."""

    def __init__(self, bus: Bus) -> None:
        self._roster = Roster(bus)
        self.held_jobs = HeldJobs(bus, self._roster, QUICK)
        handing = HandingOn(bus, self._roster, QUICK)
        self._orphans = Orphans(bus, self.held_jobs, handing, QUICK)
        self.looks = 0

    async def check(self, times: int) -> None:
        for _ in range(times):
            self.looks += 1
            await self._roster.refresh()
            await self._orphans.check()


@pytest.fixture
def eyes(bus: Bus) -> Eyes:
    return Eyes(bus)


class Crew:
    """A worker that says that it holds `requests`, until it is `silent` or its `words` end."""

    def __init__(self, *requests: str) -> None:
        self.requests = requests
        self.silent = False
        self.words: Any = None

    async def join(self, bus: Bus) -> None:
        self.words = await answer(bus, subjects.ping(DEAD), self._holding)
        await report_talker(bus, DEAD)

    def _holding(self) -> bytes | None:
        return None if self.silent else Holding("talker", self.requests).encode()


@pytest.fixture
def lists(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> AsyncMock:
    """What lists the jobs of the queues."""
    monkeypatch.setattr(bus.queue, "jobs", listed := AsyncMock(wraps=bus.queue.jobs))
    return listed


async def is_queued(bus: Bus) -> bool:
    return await bus.queue.waiting(TALKER, "m") == 1


async def test_an_orphaned_job_is_requeued_with_a_higher_epoch(bus: Bus, eyes: Eyes) -> None:
    first = await claimed(bus)
    await eyes.check(1)
    assert not await is_queued(bus)  # it may be between its claim and its lease
    await eyes.check(1)
    assert await is_queued(bus)
    again = await claim(bus, TALKER)
    assert again.sequence > first.sequence
    assert len(await bus.queue.jobs()) == 1
    await eyes.check(2)
    assert await is_queued(bus)


async def test_the_next_holder_is_told_of_deaths_before_a_lease(bus: Bus, eyes: Eyes) -> None:
    await claimed(bus)
    for deaths in (1, 2, 3):
        await report_talker(bus, f"talker-{deaths}")
        await eyes.check(1)
        eyes.held_jobs.drop(f"talker-{deaths}")
        await eyes.check(1)
        left = await lease_of(bus, stage=TALKER)
        assert (left.held, left.deaths) == (False, deaths)
        again = await claim(bus, TALKER)
        assert left.epoch < again.epoch(REQUEST)


async def test_a_job_that_is_lost_without_a_death_is_not_blamed_again(bus: Bus, eyes: Eyes) -> None:
    await claimed(bus)
    await report_talker(bus, "talker-1")
    await eyes.check(1)
    eyes.held_jobs.drop("talker-1")
    for _ in range(3):
        await eyes.check(2)
        await claim(bus, TALKER)
        assert (await lease_of(bus, stage=TALKER)).deaths == 1


async def test_a_job_that_waits_is_left_alone(bus: Bus, eyes: Eyes) -> None:
    await bus.submit(TALKER, REQUEST)
    job = await bus.queue.find(TALKER, "r")
    await eyes.check(4)
    assert await bus.queue.find(TALKER, "r") == job


async def test_a_job_that_a_worker_holds_is_left_alone_also_while_that_is_silent(
    bus: Bus, other: Bus, eyes: Eyes
) -> None:
    crew = Crew("r")
    await crew.join(other)
    await claimed(bus)
    await eyes.check(2)
    crew.silent = True  # whoever is stopped is given up by the detector, in its own time
    await eyes.check(3)
    assert not await is_queued(bus)


async def test_jobs_are_not_listed_again_while_workers_have_what_is_known(
    bus: Bus, other: Bus, eyes: Eyes, lists: AsyncMock
) -> None:
    crew = Crew("r")
    await crew.join(other)
    delivery = await claimed(bus)
    await eyes.check(3)
    assert lists.await_count == 1
    crew.requests = ()
    assert await delivery.acknowledge(5.0)
    await eyes.check(2)
    assert lists.await_count == 1


async def test_a_job_that_its_worker_forgot_is_looked_at_at_once(
    bus: Bus, other: Bus, eyes: Eyes, lists: AsyncMock
) -> None:
    crew = Crew("r")
    await crew.join(other)
    await claimed(bus)
    await eyes.check(2)
    crew.requests = ()
    await eyes.check(2)
    assert lists.await_count == 3
    assert await is_queued(bus)


async def test_a_new_job_of_a_worker_that_died_is_looked_at_at_once(
    bus: Bus, other: Bus, eyes: Eyes, lists: AsyncMock
) -> None:
    crew = Crew()
    await crew.join(other)
    await eyes.check(2)
    assert lists.await_count == 1
    await claimed(bus)
    await crew.words.unsubscribe()
    await eyes.check(2)
    assert lists.await_count == 3
    assert await is_queued(bus)


async def test_a_worker_without_a_lease_keeps_its_job(bus: Bus, other: Bus, eyes: Eyes) -> None:
    """An election in the lease bucket is no reason to tear healthy jobs from their workers."""
    await answer(other, subjects.holders("talker"), lambda: b"talker-healthy")
    await claimed(bus)
    await eyes.check(4)
    assert not await is_queued(bus)


async def test_a_job_whose_log_has_its_end_is_left_alone(bus: Bus, eyes: Eyes) -> None:
    delivery = await claimed(bus)
    writer = await bus.writer(CODES, "r", delivery.epoch(REQUEST))
    await writer.end(End("r", 0, "ok"))
    await writer.close()
    await eyes.check(4)
    assert not await is_queued(bus)


async def test_a_job_that_was_given_back_and_lost_is_handed_on(bus: Bus, eyes: Eyes) -> None:
    delivery = await claimed(bus)
    lease = await hold(bus, delivery)
    await bus.kv.put("leases", lease.key, lease.released(deaths=1).encode())  # and no NAK came
    claiming = asyncio.create_task(claim(bus, TALKER))
    await until(lambda: pulling(bus))
    await eyes.check(2)
    again = await claiming
    assert (again.sequence, again.deliveries) == (delivery.sequence, 2)
    assert (await lease_of(bus, stage=TALKER)).deaths == 1


async def pulling(bus: Bus) -> bool:
    """Whether a worker waits for a job."""
    return (await bus.queue.backlog(TALKER, "m")).pulls > 0


@pytest.fixture
def given_back(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> AsyncMock:
    """What gives jobs back."""
    monkeypatch.setattr(bus.queue, "hand_on", given := AsyncMock(wraps=bus.queue.hand_on))
    return given


async def test_a_job_that_was_given_back_waits_undisturbed_for_a_worker_with_room(
    bus: Bus, eyes: Eyes, given_back: AsyncMock
) -> None:
    lease = await hold(bus, await claimed(bus))
    await bus.queue.hand_on(lease.receipt, 5.0)
    job = await bus.queue.find(TALKER, "r")
    await eyes.check(6)
    given_back.assert_awaited_once_with(lease.receipt, ANY)
    assert await bus.queue.find(TALKER, "r") == job


async def test_a_job_that_was_lost_is_given_back_where_others_are_given_and_none_waits_for_room(
    bus: Bus, eyes: Eyes, given_back: AsyncMock
) -> None:
    """Jobs that were given back come first, so this one is not among them."""
    lease = await hold(bus, await claimed(bus))
    await eyes.check(2)
    given_back.assert_not_awaited()
    await another_is_done(bus)
    await eyes.check(1)
    given_back.assert_awaited_once_with(lease.receipt, ANY)


async def another_is_done(bus: Bus) -> None:
    """A worker is given a job of another request, and ends it."""
    await bus.submit(TALKER, SpeechRequest("next", "m", "v", "hello"))
    assert await (await claim(bus, TALKER)).acknowledge(5.0)


async def test_a_worker_that_takes_the_job_while_holders_are_sought_keeps_it(
    bus: Bus, other: Bus, eyes: Eyes, given_back: AsyncMock
) -> None:
    """Only holders answer, so that only a time-out shows that there is none."""
    lease = await hold(bus, await claimed(bus))
    taken: list[Any] = []

    async def take(message: Any) -> None:
        if eyes.looks == 2:
            await bus.queue.hand_on(lease.receipt, 5.0)
            taken.append(await claim(other, TALKER))
            await hold(other, taken[0], "talker-heir")

    await other.link.subscribe(subjects.holders("talker"), take)
    await answer(other, subjects.ping("talker-heir"), lambda: Holding("talker", ("r",)).encode())
    await eyes.check(1)
    await another_is_done(bus)  # the job is not one that waits for room
    await eyes.check(1)
    assert len(taken) == 1
    given_back.assert_awaited_once()  # by the test itself
    assert not await is_queued(bus)


@pytest.mark.parametrize("said", [Holding("talker", ("r",)).encode(), None])
async def test_the_worker_that_the_lease_names_is_asked_before_its_job_is_given_back(
    bus: Bus, other: Bus, eyes: Eyes, given_back: AsyncMock, said: bytes | None
) -> None:
    """One that is not listed yet, whose answer to the question for holders was lost, or silent."""
    await hold(bus, await claimed(bus))
    await answer(other, subjects.ping(DEAD), lambda: said)
    claiming = asyncio.create_task(claim(bus, TALKER))
    await until(lambda: pulling(bus))
    await eyes.check(4)
    given_back.assert_not_awaited()
    claiming.cancel()
