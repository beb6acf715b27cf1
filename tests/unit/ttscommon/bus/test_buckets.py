"""Keys and values over a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ttscommon import subjects
from ttscommon.bus import Bus, Entry
from ttscommon.subjects import LEASES


@pytest.fixture
async def bus(broker: Any) -> AsyncIterator[Bus]:
    connected = await Bus.connect(broker.bus, "test")
    await connected.ensure()
    yield connected
    await connected.close()


@pytest.fixture
async def other(broker: Any, bus: Bus) -> AsyncIterator[Bus]:
    connected = await Bus.connect(broker.bus, "other")
    yield connected
    await connected.close()


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


async def test_a_bucket_of_an_earlier_configuration_is_brought_up_to_date(
    bus: Bus, other: Bus
) -> None:
    info = await bus.link.jetstream.stream_info(f"KV_{subjects.REPLICAS}")
    info.config.allow_direct, info.config.max_age = False, 99.0
    await bus.link.jetstream.update_stream(info.config)
    await other.kv.put(subjects.REPLICAS, "worker", b"1")
    assert set(await other.kv.all(subjects.REPLICAS)) == {"worker"}


async def test_a_bucket_full_of_deleted_keys_can_be_listed(bus: Bus) -> None:
    await asyncio.gather(*(bus.kv.put(LEASES, f"gone-{n}", b"x") for n in range(1100)))
    await bus.kv.put(LEASES, "stays", b"here")
    await asyncio.gather(*(bus.kv.delete(LEASES, f"gone-{n}") for n in range(1100)))
    assert await bus.kv.all(LEASES) == {"stays": b"here"}


async def test_a_value_is_replaced_only_at_the_revision_that_was_seen(bus: Bus, other: Bus) -> None:
    assert await bus.kv.replace(LEASES, "k", b"1", 0)
    assert not await other.kv.replace(LEASES, "k", b"2", 0)
    entry = await other.kv.entry(LEASES, "k")
    assert entry is not None
    assert entry.value == b"1"
    assert await other.kv.replace(LEASES, "k", b"2", entry.revision)
    assert not await bus.kv.replace(LEASES, "k", b"3", entry.revision)
    assert await bus.kv.get(LEASES, "k") == b"2"


async def test_a_watch_shows_what_is_there_what_changes_and_silence(bus: Bus, other: Bus) -> None:
    await bus.kv.put(LEASES, "k", b"1")
    async with asyncio.timeout(10), bus.kv.watch(LEASES, idle_s=0.1) as changes:
        first = await anext(changes)
        assert isinstance(first, Entry)
        assert (first.key, first.value) == ("k", b"1")
        assert await anext(changes) is None
        await other.kv.delete(LEASES, "k")
        while (entry := await anext(changes)) is None:
            pass
        assert entry.value is None
