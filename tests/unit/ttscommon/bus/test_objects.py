"""The object store when it is full."""

from __future__ import annotations

import pytest

from tests.connections import Connect
from ttscommon.bus import Bus
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.subjects import PASSING_RECORDINGS, RECORDINGS

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
