"""Jobs that the reaper hands over directly."""

import asyncio

import pytest

from tests.unit.ttscommon.cluster.scene import (
    Seen,
    ended,
    hand,
    handover,
    leased,
    none_queued,
    request,
    unleased,
    work,
    working,
)
from tests.waits import TIMEOUT_S, until
from ttscommon.bus import Bus
from ttscommon.cluster.jobs import Claims, Job
from ttscommon.wire import subjects
from ttscommon.wire.epochs import FULL, TAKEN, epoch_of, handed_over
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.messages import End, TextPiece, encode
from ttscommon.wire.subjects import CODES, TALKER, VOCODER, Stage


def holding(claims: Claims) -> Job:
    """A job with one of the slots."""
    return Job(request("r"), 1, message=None, claims=claims)  # type: ignore[arg-type]


async def queue_raw(bus: Bus, stage: Stage, request_id: str, data: bytes) -> None:
    """Queue a message that no gateway of this version makes."""
    await bus.link.jetstream.publish(bus.link.subject(stage.job("m", request_id)), data)


async def test_a_job_that_is_handed_over_is_taken_from_under_a_pull(bus: Bus, other: Bus) -> None:
    seen = Seen()
    async with working(bus, seen, slots=1) as worker:
        first = epoch_of(1, 1)
        assert await hand(other, bus, handover(handed_over(first))) == TAKEN
        job = await seen.next()
        assert (job.request_id, job.epoch) == ("r", first + 1)
        assert worker.free == 0
        await until(lambda: leased(other))
        assert await hand(other, bus, handover(handed_over(epoch_of(2, 1)), "other")) == FULL
        await other.submit(VOCODER, request("waits"))
        seen.finish.set()
        assert (await seen.next()).request_id == "waits"  # it pulls again


async def test_a_worker_says_which_jobs_it_holds_and_refuses_a_handover_of_those_and_of_nonsense(
    bus: Bus, other: Bus
) -> None:
    seen = Seen()
    async with working(bus, seen):
        job = await work(other, seen)
        assert await hand(other, bus, handover(job.epoch)) == FULL
        subject = subjects.handover(bus.worker_id)
        assert await other.link.request(subject, b"nonsense", 5.0) == FULL
        subject = subjects.holders("vocoder")
        assert await other.link.request(subject, b"r", 5.0) == bus.worker_id.encode()
        with pytest.raises(BusUnavailable):
            await other.link.request(subject, b"another", 0.2)


JOBS = {
    "no message": b"\x00 nonsense",
    "another kind of message": encode(TextPiece("r", 0, "hello")),
    "a job of another version": encode(request("r")).replace(b"\xa1v\x01", b"\xa1v\x63"),
    "a job of another request": encode(request("other")),
}


@pytest.mark.parametrize("data", JOBS.values(), ids=JOBS)
async def test_a_vocode_job_that_cannot_be_read_ends_its_request_and_leaves_nothing(
    bus: Bus, other: Bus, data: bytes
) -> None:
    seen = Seen()
    async with working(bus, seen, slots=1) as worker:
        await queue_raw(other, VOCODER, "r", data)
        end = await ended(other)
        assert (end.outcome, end.code) == ("error", "internal")
        await until(lambda: none_queued(other))
        await until(lambda: unleased(other))
        assert worker.free == 1
        await other.submit(VOCODER, request("after"))
        assert (await seen.next()).request_id == "after"  # and ends before its lease is written


async def test_a_talk_job_that_cannot_be_read_ends_its_codes_and_reaches_the_vocoders(
    bus: Bus, other: Bus
) -> None:
    await other.setup.ensure_consumer(TALKER, "m")
    async with working(bus, Seen(), stage=TALKER, feeds=VOCODER):
        await queue_raw(other, TALKER, "r", b"nonsense")
        async with asyncio.timeout(10), other.reader(CODES, "r") as reader:
            end = await anext(reader)
        assert isinstance(end, End)
        assert (end.outcome, end.code) == ("error", "internal")
        job = await other.queue.find(VOCODER, "r")
        assert job is not None
        assert (job.request.model, job.request.text_final) == ("m", True)
        assert await other.queue.find(TALKER, "r") is None


async def test_a_job_that_names_no_request_is_dropped(bus: Bus, other: Bus) -> None:
    seen = Seen()
    async with working(bus, seen, slots=1):
        await other.link.jetstream.publish(other.link.subject("job.voc.m.what?"), b"nonsense")
        await other.submit(VOCODER, request("after"))
        assert (await seen.next()).request_id == "after"  # and ends before its lease is written
        seen.finish.set()
        await until(lambda: none_queued(other))


async def test_jobs_and_pulls_never_exceed_the_slots() -> None:
    claims = Claims(2)
    await claims.reserve()
    assert claims.pulled()
    await claims.reserve()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(claims.reserve(), 0.01)
    claims.unreserve()
    await claims.reserve()
    assert claims.free == 1


@pytest.mark.parametrize("parked", [False, True])
async def test_a_job_that_is_handed_over_or_comes_back_goes_before_a_pull(parked: bool) -> None:
    claims = Claims(1, parkable=1)
    job = holding(claims)
    assert not parked or (claims.take() and job.park())
    await claims.reserve()
    if parked:
        await job.unpark()
    else:
        assert claims.take()
    assert claims.preempted.is_set()
    assert not claims.pulled()  # what the pull brought has no room
    assert not claims.preempted.is_set()


async def test_a_pull_is_asked_anew_when_the_load_has_fallen_well_below_what_it_said() -> None:
    claims = Claims(8)
    assert all(claims.take() for _ in range(6))
    await claims.reserve()
    claims.give_back()
    assert not claims.preempted.is_set()
    claims.give_back()
    assert claims.preempted.is_set()
    claims.unreserve()
    await claims.reserve()
    assert not claims.preempted.is_set()


def test_a_spoken_job_lends_its_slot_and_gives_it_back_once() -> None:
    claims = Claims(1)
    assert claims.take()
    job = holding(claims)
    job.spoken()
    job.spoken()
    assert claims.free == 1
    job.over()
    assert claims.free == 1


async def test_a_parked_job_lets_others_in_and_comes_back_before_what_is_queued() -> None:
    claims = Claims(1, parkable=1)
    assert claims.take()
    job = holding(claims)
    assert job.park()
    assert claims.take()  # another job has it meanwhile
    returning = asyncio.create_task(job.unpark())
    await asyncio.sleep(0)
    assert (job.parked, claims.parked) == (True, 1)
    pulling = asyncio.create_task(claims.reserve())
    claims.give_back()
    await asyncio.wait_for(returning, TIMEOUT_S)
    assert (claims.free, job.parked, pulling.done()) == (0, False, False)
    assert claims.parked == 0
    job.over()
    await asyncio.wait_for(pulling, TIMEOUT_S)
    assert claims.free == 1


async def test_parked_jobs_go_on_while_a_worker_drains_and_takes_nothing() -> None:
    claims = Claims(2, parkable=2)
    jobs = [holding(claims), holding(claims)]
    for job in jobs:
        assert claims.take()
        assert job.park()
    claims.close()
    assert (claims.free, claims.take()) == (0, False)
    await asyncio.wait_for(jobs[0].unpark(), TIMEOUT_S)
    jobs[1].spoken()
    for job in jobs:
        job.over()
    assert claims.used == 0


def test_no_more_jobs_are_parked_than_may_be() -> None:
    claims = Claims(2, parkable=1)
    assert all(claims.take() for _ in range(2))
    assert holding(claims).park()
    assert not holding(claims).park()
    assert claims.used == 1


def test_no_more_jobs_wait_for_the_broker_than_there_are_slots() -> None:
    claims = Claims(1)
    first, second = holding(claims), holding(claims)
    assert claims.take()
    first.spoken()
    assert claims.take()
    second.spoken()
    assert claims.free == 0
    first.over()
    second.over()
    assert claims.free == 1
