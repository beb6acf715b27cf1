"""Which of several reapers works, on a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from ttscommon.bus import Bus
from ttscommon.cluster.reaper.election import Election
from ttscommon.cluster.reaper.tuning import ReaperTuning
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable

QUICK = ReaperTuning(term_s=0.3, ping_s=0.1, reunion_s=0.1, leaderless_s=0.6)


async def answering(bus: Bus) -> None:
    async def pong(message: Any) -> None:
        await message.respond(b"")

    await bus.link.subscribe(subjects.ping(bus.worker_id), pong)


async def test_one_of_two_is_elected_and_stays_so(bus: Bus, other: Bus, scene: Any) -> None:
    await answering(bus)
    first, second = Election(bus, QUICK), Election(other, QUICK)
    await first.stand()
    for _ in range(5):
        await second.stand()
        await first.stand()
    assert (first.leading, second.leading) == (True, False)


async def test_a_holder_that_stops_renewing_is_replaced(bus: Bus, other: Bus, scene: Any) -> None:
    await answering(bus)
    first, second = Election(bus, QUICK), Election(other, QUICK)
    await first.stand()

    async def elected() -> bool:
        await second.stand()
        return second.leading

    await scene.until(elected)
    assert not first.leading
    await first.stand()
    assert not first.leading


async def test_a_holder_that_is_gone_is_replaced_without_waiting_for_its_term(
    bus: Bus, other: Bus, scene: Any
) -> None:
    patient = ReaperTuning(term_s=60.0, ping_s=0.1, reunion_s=0.1)
    await Election(other, patient).stand()
    await other.close()
    mine = Election(bus, patient)

    async def elected() -> bool:
        await mine.stand()
        return mine.leading

    await scene.until(elected)


async def test_the_elected_one_goes_on_while_the_bucket_has_no_leader(
    bus: Bus, scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Election(bus, QUICK)
    await mine.stand()

    async def electing(*_: Any) -> Any:
        raise BusUnavailable("no leader")

    monkeypatch.setattr(bus.kv, "entry", electing)
    for _ in range(3):
        await mine.stand()
        assert mine.leading

    async def given_up() -> bool:
        await mine.stand()
        return not mine.leading

    await scene.until(given_up)  # no election takes for ever


async def test_who_was_not_elected_is_not_while_the_bucket_has_no_leader(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def electing(*_: Any) -> Any:
        raise BusUnavailable("no leader")

    monkeypatch.setattr(bus.kv, "entry", electing)
    mine = Election(bus, QUICK)
    await mine.stand()
    assert not mine.leading
