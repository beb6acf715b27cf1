"""One job of a dead worker, handed on by the queue or directly, on a real broker."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import numpy as np
import pytest

from tests.unit.ttscommon.cluster.scene import (
    REQUEST,
    answer,
    claim,
    claimed,
    hold,
    lease_of,
    report_talker,
)
from ttscommon.bus import Bus
from ttscommon.cluster.leases import Lease
from ttscommon.cluster.reaper.failure_detector import Roster, after_death
from ttscommon.cluster.reaper.handing import HandingOn
from ttscommon.cluster.reaper.tuning import ReaperTuning
from ttscommon.wire import subjects
from ttscommon.wire.epochs import FULL, TAKEN, HandOver, Holding, handed_over
from ttscommon.wire.errors import BusUnavailable, NoResponders
from ttscommon.wire.messages import CodecChunk, Tensor
from ttscommon.wire.subjects import CODES, LEASES, TALKER

QUICK = ReaperTuning(nak_s=0.1, handover_s=0.5, first_pause_s=0.01, longest_pause_s=0.05)


@pytest.fixture
def roster(bus: Bus) -> Roster:
    return Roster(bus)


@pytest.fixture
def handing(bus: Bus, roster: Roster) -> HandingOn:
    return HandingOn(bus, roster, QUICK)


async def dead(bus: Bus) -> Lease:
    """A worker died with the request's job."""
    return await hold(bus, await claimed(bus))


async def died(bus: Bus, handing: HandingOn, lease: Lease) -> bool:
    """Hand a dead worker's job on, as the reaper does."""
    [after] = await after_death(bus, [lease], QUICK.tail_s)
    return await handing.run(lease, after)


async def taking(bus: Bus, worker_id: str, said: bytes | None) -> list[HandOver]:
    """A live worker that answers handovers so, or not at all; returns those it was given."""
    offers: list[HandOver] = []

    async def take(message: Any) -> None:
        offers.append(HandOver.decode(message.data))
        if said is not None:
            await message.respond(said)

    await bus.link.subscribe(subjects.handover(worker_id), take)
    return offers


def without_a_leader(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The consumer's leader is gone: nobody takes a NAK."""
    monkeypatch.setattr(bus.queue, "hand_on", AsyncMock(side_effect=NoResponders("no leader")))


def late(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queue takes a NAK, and says so too late; returns the receipts that it got."""
    hand_on, receipts = bus.queue.hand_on, []

    async def slowly(receipt: str, timeout_s: float) -> None:
        receipts.append(receipt)
        await hand_on(receipt, 5.0)
        raise BusUnavailable("no answer in time")

    monkeypatch.setattr(bus.queue, "hand_on", slowly)
    return receipts


async def test_without_a_leader_a_live_worker_gets_the_job_directly(
    bus: Bus, other: Bus, roster: Roster, handing: HandingOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await dead(bus)
    without_a_leader(bus, monkeypatch)
    full, free = await taking(other, "full", FULL), await taking(other, "free", TAKEN)
    await report_talker(other, "full", free=4)
    await report_talker(other, "free", free=1)
    await report_talker(other, "busy", free=0)
    await roster.refresh()
    assert await died(bus, handing, lease)
    assert (len(full), len(free)) == (1, 1)
    assert free[0].request == REQUEST.again_now()
    assert free[0].epoch == handed_over(lease.epoch)
    assert free[0].receipt == lease.receipt
    # It may die before it has written its lease.
    assert [(await handing.held_by("free"))[0].epoch] == [free[0].epoch]
    assert await handing.held_by("full") == []


async def test_a_queue_that_answers_late_has_the_job_and_no_worker_gets_it_directly(
    bus: Bus, other: Bus, roster: Roster, handing: HandingOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await dead(bus)
    receipts = late(bus, monkeypatch)
    offers = await taking(other, "free", TAKEN)
    await report_talker(other, "free")
    await roster.refresh()
    assert await died(bus, handing, lease)
    assert (len(receipts), offers) == (1, [])


async def hesitating(bus: Bus, worker_id: str, holding: tuple[str, ...]) -> list[HandOver]:
    """A live worker that does not answer handovers in time, and says what it holds."""
    await answer(bus, subjects.ping(worker_id), lambda: Holding("talker", holding).encode())
    return await taking(bus, worker_id, None)


@pytest.mark.parametrize("taken", [True, False])
async def test_a_worker_that_answers_late_is_asked_whether_it_took_the_job(
    bus: Bus,
    other: Bus,
    roster: Roster,
    handing: HandingOn,
    monkeypatch: pytest.MonkeyPatch,
    taken: bool,
) -> None:
    lease = await dead(bus)
    without_a_leader(bus, monkeypatch)
    late = await hesitating(other, "late", ("r",) if taken else ())
    next_ = await taking(other, "next", TAKEN)
    await report_talker(other, "late", free=4)
    await report_talker(other, "next", free=1)
    await roster.refresh()
    assert await died(bus, handing, lease)
    assert len(late) == 1
    # Were it to take the job yet, the other's epoch would fence it.
    assert [offer.epoch for offer in next_] == ([] if taken else [handed_over(late[0].epoch)])


async def test_the_lease_is_kept_until_the_job_is_handed_on(
    bus: Bus, handing: HandingOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await dead(bus)
    hand_on = bus.queue.hand_on
    without_a_leader(bus, monkeypatch)
    running = asyncio.create_task(died(bus, handing, lease))
    await asyncio.sleep(0.3)
    left = await lease_of(bus, stage=TALKER)
    assert (left.receipt, left.deaths) == (lease.receipt, 1)  # nobody took it: not forgotten
    monkeypatch.setattr(bus.queue, "hand_on", hand_on)
    assert await asyncio.wait_for(running, 10)


async def test_a_job_that_another_worker_has_by_now_is_left_to_it(
    bus: Bus, handing: HandingOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await dead(bus)
    without_a_leader(bus, monkeypatch)
    running = asyncio.create_task(died(bus, handing, lease))
    await asyncio.sleep(0.1)
    newer = Lease("healthy", "talker", "r", handed_over(lease.epoch), "elsewhere")
    await bus.kv.put(LEASES, newer.key, newer.encode())
    assert not await asyncio.wait_for(running, 10)


async def test_a_job_that_is_done_leaves_only_its_lease_to_forget(
    bus: Bus, handing: HandingOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery = await claimed(bus)
    lease = await hold(bus, delivery)
    assert await delivery.acknowledge(5.0)
    without_a_leader(bus, monkeypatch)
    assert not await asyncio.wait_for(died(bus, handing, lease), 10)
    assert await lease_of(bus, stage=TALKER) is None


# Deaths


async def test_deaths_add_up_while_the_log_does_not_grow(bus: Bus, handing: HandingOn) -> None:
    delivery = await claimed(bus)
    for deaths in (1, 2, 3):
        lease = await hold(bus, delivery, f"talker-{deaths}", deaths=deaths - 1)
        writer = await bus.writer(CODES, "r", lease.epoch)
        await writer.release()
        assert await died(bus, handing, lease)
        left = await lease_of(bus, stage=TALKER)
        assert (left.held, left.deaths) == (False, deaths)
        delivery = await claim(bus, TALKER)


async def test_progress_clears_the_count(bus: Bus, handing: HandingOn) -> None:
    lease = await hold(bus, await claimed(bus), deaths=2)
    writer = await bus.writer(CODES, "r", lease.epoch)
    await writer.put(CodecChunk("r", 0, {"codes": Tensor.of(np.zeros((3, 1), np.int16))}))
    await writer.close()
    assert await died(bus, handing, lease)
    left = await lease_of(bus, stage=TALKER)
    assert (left.held, left.deaths) == (False, 0)


async def test_deaths_that_cannot_be_written_are_told_to_a_live_worker(
    bus: Bus, roster: Roster, handing: HandingOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await dead(bus)
    await report_talker(bus, "live")
    await roster.refresh()
    offers = await taking(bus, "live", TAKEN)
    monkeypatch.setattr(bus.kv, "replace_among", AsyncMock(side_effect=BusUnavailable("electing")))
    assert await asyncio.wait_for(died(bus, handing, lease), 10)
    assert [offer.deaths for offer in offers] == [1]
