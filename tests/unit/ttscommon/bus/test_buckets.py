"""Keys and values over a real broker."""

import asyncio

import pytest

from tests.connections import Connect
from ttscommon.bus import BucketEntry, Bus
from ttscommon.wire import subjects
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.subjects import LEASES, PASSING_RECORDINGS, RECORDINGS


async def test_a_bucket_is_listed_whole_while_its_keys_are_renewed(bus: Bus, other: Bus) -> None:
    keys = {f"worker-{i}" for i in range(8)}
    for key in keys:
        await bus.kv.put(subjects.REPLICAS, key, b"0")
    done = asyncio.Event()

    async def renew() -> None:
        while not done.is_set():
            for key in keys:
                await other.kv.put(subjects.REPLICAS, key, b"1")

    renewing = asyncio.create_task(renew())
    for _ in range(100):
        assert set(await bus.kv.all(subjects.REPLICAS)) == keys
    done.set()
    await renewing
    await bus.kv.delete(subjects.REPLICAS, "worker-0")
    assert set(await bus.kv.all(subjects.REPLICAS)) == keys - {"worker-0"}


async def test_a_bucket_full_of_deleted_keys_can_be_listed(bus: Bus) -> None:
    await asyncio.gather(*(bus.kv.put(LEASES, f"gone-{n}", b"x") for n in range(1100)))
    await bus.kv.put(LEASES, "stays", b"here")
    await asyncio.gather(*(bus.kv.delete(LEASES, f"gone-{n}") for n in range(1100)))
    assert await bus.kv.all(LEASES) == {"stays": b"here"}


async def test_a_value_is_replaced_only_at_the_revision_that_was_seen(bus: Bus, other: Bus) -> None:
    first = await bus.kv.replace(LEASES, "k", b"1", 0)
    assert first is not None
    assert await other.kv.replace(LEASES, "k", b"2", 0) is None
    assert await other.kv.entry(LEASES, "k") == BucketEntry("k", b"1", first)
    assert await other.kv.replace(LEASES, "k", b"2", first) is not None
    assert await bus.kv.replace(LEASES, "k", b"3", first) is None
    assert await bus.kv.get(LEASES, "k") == b"2"


async def test_a_key_is_deleted_only_at_the_revision_that_was_seen(bus: Bus) -> None:
    first = await bus.kv.put(LEASES, "k", b"1")
    second = await bus.kv.put(LEASES, "k", b"2")
    assert not await bus.kv.delete(LEASES, "k", first)
    assert await bus.kv.delete(LEASES, "k", second)
    gone = await bus.kv.entry(LEASES, "k")
    assert gone.value is None
    third = await bus.kv.replace(LEASES, "k", b"3", gone.revision)
    assert await bus.kv.delete(LEASES, "k", third)
    assert await bus.kv.replace(LEASES, "k", b"4", 0)  # as if it had never been there
    assert await bus.kv.get(LEASES, "k") == b"4"


async def test_a_key_is_written_only_behind_the_last_of_all_that_match(bus: Bus) -> None:
    first = await bus.kv.replace_among(LEASES, "a.*", "a.x", b"1", 0)
    assert first is not None
    assert await bus.kv.replace_among(LEASES, "a.*", "a.y", b"2", 0) is None
    second = await bus.kv.replace_among(LEASES, "a.*", "a.y", b"2", first)
    assert second is not None
    await bus.kv.purge(LEASES, "a.y", first)
    assert await bus.kv.get(LEASES, "a.y") == b"2"  # it is newer
    await bus.kv.purge(LEASES, "a.x", second)
    assert await bus.kv.get(LEASES, "a.x") is None
    assert await bus.kv.replace_among(LEASES, "a.*", "a.y", b"3", second) is not None


async def test_one_read_finds_the_last_entries_of_several_patterns(bus: Bus) -> None:
    for key in ("a.x", "b.x", "b.y", "c.x"):
        await bus.kv.put(LEASES, key, key.encode())
    await bus.kv.delete(LEASES, "b.y")
    found = {entry.key: entry.value for entry in await bus.kv.latest(LEASES, "a.x", "b.*")}
    assert found == {"a.x": b"a.x", "b.x": b"b.x", "b.y": None}
    assert [entry.key for entry in await bus.kv.entries(LEASES, "*.x")] == ["a.x", "b.x", "c.x"]


SOUND = bytes(300_000)


@pytest.fixture
async def bus(connect: Connect) -> Bus:
    return await connect(max_log_bytes=4 << 20)


async def test_a_full_store_of_passing_recordings_takes_new_ones_for_its_oldest(bus: Bus) -> None:
    """One key cannot have all others refused for an hour, whatever gateways counted of it."""
    for number in range(12):
        await bus.objects.put(PASSING_RECORDINGS, f"flood-{number}", SOUND)
    await bus.objects.put(PASSING_RECORDINGS, "other", SOUND)
    assert await bus.objects.get(PASSING_RECORDINGS, "other") == SOUND
    found = [await bus.objects.get(PASSING_RECORDINGS, f"flood-{number}") for number in range(12)]
    assert found[0] is None
    assert found[-1] == SOUND
    assert set(found) == {None, SOUND}


async def test_a_full_store_of_voices_keeps_what_it_has(bus: Bus) -> None:
    async def fill() -> None:
        for number in range(16):
            await bus.objects.put(RECORDINGS, f"voice-{number}", SOUND)

    with pytest.raises(BusUnavailable):
        await fill()
    assert await bus.objects.get(RECORDINGS, "voice-0") == SOUND
