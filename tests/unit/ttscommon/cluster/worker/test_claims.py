"""Counting jobs, pulls and slots that are lent."""

from __future__ import annotations

import asyncio

import pytest

from tests.waits import TIMEOUT_S
from ttscommon.cluster.worker.claims import Claims, Slot


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


async def test_a_job_that_is_handed_over_goes_before_a_pull() -> None:
    claims = Claims(1)
    await claims.reserve()
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


async def test_nothing_is_taken_once_closed() -> None:
    claims = Claims(2)
    assert claims.take()
    claims.close()
    assert (claims.free, claims.take()) == (0, False)


def test_a_spoken_job_lends_its_slot_and_gives_it_back_once() -> None:
    claims = Claims(1)
    assert claims.take()
    slot = Slot(claims)
    slot.spoken()
    slot.spoken()
    assert claims.free == 1
    slot.over()
    assert claims.free == 1


async def test_a_parked_job_lets_others_in_and_comes_back_before_what_is_queued() -> None:
    claims = Claims(1, parkable=1)
    assert claims.take()
    slot = Slot(claims)
    assert slot.park()
    assert claims.take()  # another job has it meanwhile
    returning = asyncio.create_task(slot.unpark())
    await asyncio.sleep(0)
    assert (slot.parked, claims.parked) == (True, 1)
    pulling = asyncio.create_task(claims.reserve())
    claims.give_back()
    await asyncio.wait_for(returning, TIMEOUT_S)
    assert (claims.free, slot.parked, pulling.done()) == (0, False, False)
    assert claims.parked == 0
    slot.over()
    await asyncio.wait_for(pulling, TIMEOUT_S)
    assert claims.free == 1


async def test_a_job_that_comes_back_goes_before_an_outstanding_pull() -> None:
    claims = Claims(1, parkable=1)
    assert claims.take()
    slot = Slot(claims)
    assert slot.park()
    await claims.reserve()
    await slot.unpark()
    assert claims.preempted.is_set()
    assert not claims.pulled()


async def test_parked_jobs_go_on_while_a_worker_drains() -> None:
    claims = Claims(2, parkable=2)
    slots = [Slot(claims), Slot(claims)]
    for slot in slots:
        assert claims.take()
        assert slot.park()
    claims.close()
    await asyncio.wait_for(slots[0].unpark(), TIMEOUT_S)
    slots[1].spoken()
    for slot in slots:
        slot.over()
    assert claims.used == 0


def test_no_more_jobs_are_parked_than_may_be() -> None:
    claims = Claims(2, parkable=1)
    assert claims.take()
    assert claims.take()
    assert Slot(claims).park()
    assert not Slot(claims).park()
    assert claims.used == 1


def test_no_more_jobs_wait_for_the_broker_than_there_are_slots() -> None:
    claims = Claims(1)
    first, second = Slot(claims), Slot(claims)
    assert claims.take()
    first.spoken()
    assert claims.take()
    second.spoken()
    assert claims.free == 0
    first.over()
    second.over()
    assert claims.free == 1
