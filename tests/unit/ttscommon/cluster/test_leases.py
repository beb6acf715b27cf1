"""A job's leases on a real broker: the last one counts, whoever wrote it."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest

from ttscommon.bus import Bus
from ttscommon.cluster.leases import (
    HeldLease,
    JobLeases,
    Lease,
    forget,
    lease_holders,
    leases_of_worker,
)
from ttscommon.wire.epochs import HandOver
from ttscommon.wire.errors import BusUnavailable, Fenced
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.subjects import LEASES


def lease(worker: str, epoch: int = 1, request_id: str = "r", **figures: Any) -> Lease:
    return Lease(worker, "talker", request_id, epoch, "receipt", **figures)


def test_a_job_that_is_handed_over_brings_what_is_known_of_its_past_and_has_no_holder() -> None:
    known: dict[str, Any] = {
        "deaths": 1,
        "bounces": 2,
        "failures": 4,
        "shared": 6,
        "dead": ("w",),
        "silences": 5,
    }
    offer = HandOver(SpeechRequest("r", "m", "v", ""), 5, "receipt", 3, **known)
    assert Lease.handed(offer, "talker") == lease("", 5, **known)
    assert not Lease.handed(offer, "talker").held


async def keys(bus: Bus) -> list[str]:
    return sorted(await bus.kv.all(LEASES))


@pytest.mark.own_broker
async def test_a_removed_lease_stays_so_when_the_broker_is_killed(bus: Bus, broker: Any) -> None:
    held = HeldLease(lease("a"))
    await held.take(bus)
    await held.release(bus)
    assert await bus.kv.entries(LEASES) == []  # no trace, whose end would bring it back
    with bus.link.reconnections() as returned:
        broker.children["broker"].kill()
        await asyncio.wait_for(returned.wait(), 20)
    await bus.setup.verify()
    assert await keys(bus) == []


async def test_a_successor_has_the_figures_and_the_place_of_its_predecessor(bus: Bus) -> None:
    await HeldLease(lease("a", 1, deaths=2)).take(bus)
    heir = HeldLease(lease("b", 2))
    await heir.take(bus)
    assert heir.lease.deaths == 2
    assert await keys(bus) == ["talker.r.b"]
    await heir.note(bus, waiting=True)
    await heir.release(bus)
    assert await keys(bus) == []


async def test_an_heir_whose_lease_could_not_be_written_removes_what_it_inherited(bus: Bus) -> None:
    await HeldLease(lease("a", 1)).take(bus)
    await HeldLease(lease("b", 2)).release(bus)
    assert await keys(bus) == []


async def test_what_could_not_be_removed_at_a_takeover_goes_with_the_job(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    await HeldLease(lease("a", 1)).take(bus)
    heir = HeldLease(lease("b", 2))
    with monkeypatch.context() as broken:
        broken.setattr(bus.kv, "purge", AsyncMock(side_effect=BusUnavailable("no leader")))
        await heir.take(bus)
    assert await keys(bus) == ["talker.r.a", "talker.r.b"]
    await heir.release(bus)
    assert await keys(bus) == []


async def test_a_stale_holder_cannot_speak_for_the_job_though_its_key_is_its_own(bus: Bus) -> None:
    stale, heir = HeldLease(lease("a", 1)), HeldLease(lease("b", 2))
    await stale.take(bus)
    await heir.take(bus)
    assert not await stale.hand_back(bus)
    with pytest.raises(Fenced):
        await HeldLease(lease("a", 1)).take(bus)
    await stale.release(bus)
    assert await keys(bus) == ["talker.r.b"]


@pytest.mark.parametrize("written", [True, False])
async def test_what_the_reaper_noted_survives_the_return_of_the_holder(
    bus: Bus, written: bool
) -> None:
    """A worker that was paused finds itself fenced, and tidies up what is its own."""
    paused = HeldLease(lease("a", 1))
    if written:
        await paused.take(bus)
    noted = lease("a", 1).released(deaths=1)
    await HeldLease(noted, holder="a").take(bus, figures=False)
    await paused.release(bus)
    assert (await JobLeases.read(bus, "talker", "r")).newest == noted
    heir = HeldLease(lease("b", 2))
    await heir.take(bus)
    assert heir.lease.deaths == 1


async def test_a_worker_that_gets_a_job_back_knows_what_it_knew(bus: Bus) -> None:
    first = HeldLease(lease("a", 1))
    await first.take(bus)
    assert await first.hand_back(bus, bounces=1)
    again = HeldLease(lease("a", 2))
    await again.take(bus)
    assert again.lease.bounces == 1
    await first.release(bus)  # of the earlier delivery
    assert await keys(bus) == ["talker.r.a"]


async def test_a_workers_jobs_are_listed_by_its_name_alone(bus: Bus) -> None:
    for name in ("r1", "r2"):
        await HeldLease(lease("a", request_id=name)).take(bus)
    await HeldLease(lease("b", request_id="r3")).take(bus)
    given_back = HeldLease(lease("a", request_id="r4"))
    await given_back.take(bus)
    await given_back.hand_back(bus)
    await bus.kv.put(LEASES, "talker.r5.a", b"junk")
    assert {one.request_id for one in await leases_of_worker(bus, "a")} == {"r1", "r2"}
    assert await lease_holders(bus) == {"a", "b"}


async def test_a_job_that_is_over_leaves_nothing_but_what_is_later(bus: Bus) -> None:
    await HeldLease(lease("a", 1)).take(bus)
    await bus.kv.put(LEASES, "talker.r.b", lease("b", 3).encode())
    await forget(bus, lease("a", 2))
    assert await keys(bus) == ["talker.r.b"]
