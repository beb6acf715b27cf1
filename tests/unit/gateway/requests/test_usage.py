"""What each key used: sums of all gateways and their lives, whatever the broker did meanwhile."""

from datetime import date

import pytest

from gateway.requests.usage import UsageCounter, UsedOnDay
from tests.connections import Connect
from ttscommon.bus import Bus
from ttscommon.wire.errors import BusUnavailable

DAY_S = 86_400.0
FIRST = date(2026, 1, 5)
NOON_S = 1_767_614_400.0  # of that day


def sums(found: list[UsedOnDay]) -> dict[tuple[str, str], tuple[int, int, float]]:
    return {
        (one.day.isoformat(), one.model): (one.used.requests, one.used.characters, one.used.seconds)
        for one in found
    }


async def test_the_total_is_that_of_all_gateways_and_of_their_lives_before(
    connect: Connect, bus: Bus
) -> None:
    for life in range(3):
        own = await connect()
        usage = UsageCounter(own, lambda: NOON_S)
        usage.count("acme", "m", requests=1, characters=10 + life, seconds=0.5)
        await usage.store()
        usage.count("acme", "m", characters=1)
        await usage.store()
        await usage.store()  # nothing changed
        await own.close()
    usage = UsageCounter(bus, lambda: NOON_S)
    usage.count("acme", "other", requests=1, characters=7, seconds=1.0)
    usage.count("rival", "m", requests=9, characters=9, seconds=9.0)
    await usage.store()
    found = sums(await UsageCounter(await connect()).of("acme", FIRST, FIRST))
    assert found == {("2026-01-05", "m"): (3, 36, 1.5), ("2026-01-05", "other"): (1, 7, 1.0)}


async def test_a_day_ends_at_midnight_and_keeps_its_sums(bus: Bus) -> None:
    now_s = [NOON_S]
    usage = UsageCounter(bus, lambda: now_s[0])
    for day in range(4):
        now_s[0] = NOON_S + day * DAY_S
        usage.count("acme", "m", requests=day + 1)
        await usage.store()
    found = sums(await usage.of("acme", date(2026, 1, 6), date(2026, 1, 8)))
    assert [used[0] for used in found.values()] == [2, 3, 4]


async def test_what_could_not_be_stored_is_stored_once_the_broker_can(
    bus: Bus, other: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage, put = UsageCounter(bus, lambda: NOON_S), bus.kv.put
    usage.count("acme", "m", requests=1, characters=5)

    async def stored_but_not_told(bucket: str, key: str, value: bytes) -> int:
        await put(bucket, key, value)
        raise BusUnavailable("no answer")

    monkeypatch.setattr(bus.kv, "put", stored_but_not_told)
    with pytest.raises(BusUnavailable):
        await usage.store()
    usage.count("acme", "m", requests=1, characters=5)
    monkeypatch.undo()
    await usage.store()
    assert sums(await UsageCounter(other).of("acme", FIRST, FIRST)) == {
        ("2026-01-05", "m"): (2, 10, 0.0)
    }
