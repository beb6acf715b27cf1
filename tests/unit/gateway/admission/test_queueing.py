"""Requests that would rather wait than be refused."""

from __future__ import annotations

import asyncio
from functools import partial

from gateway.admission.queueing import WaitingRoom
from tests.waits import PATIENCE_S
from ttscommon.wire.errors import Overloaded

FULL = Overloaded("full")


class Places:
    """So many places, which whoever is let in takes."""

    def __init__(self, free: int = 0) -> None:
        self.free = free
        self.taken: list[str] = []

    def ask(self, name: str, tenant: str = "") -> Overloaded | None:
        if not self.free:
            return FULL
        self.free -= 1
        self.taken.append(name)
        return None


async def started(room: WaitingRoom, waiting: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len(room) < waiting:
            await asyncio.sleep(0)


async def test_where_there_is_room_nothing_waits() -> None:
    assert await WaitingRoom(8).wait("", 5.0, lambda: None) == 0.0


async def test_places_go_to_those_who_came_first() -> None:
    room, places = WaitingRoom(8), Places()
    tasks = []
    for name in ("a", "b"):
        tasks.append(asyncio.create_task(room.wait(name, 5.0, partial(places.ask, name))))
        await started(room, len(tasks))
    for _ in tasks:
        places.free += 1
        room.room()
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0)
    assert all([await task > 0 for task in tasks])
    assert places.taken == ["a", "b"]
    assert len(room) == 0


async def test_one_whose_key_is_full_lets_others_pass() -> None:
    room, places = WaitingRoom(8), Places()
    stuck = asyncio.create_task(room.wait("stuck", 5.0, lambda: FULL))
    await started(room, 1)
    other = asyncio.create_task(room.wait("other", 5.0, lambda: places.ask("other")))
    await started(room, 2)
    places.free = 1
    room.room()
    assert await other > 0
    stuck.cancel()
    await asyncio.wait([stuck])
    assert len(room) == 0


async def test_nobody_waits_longer_than_it_would() -> None:
    room = WaitingRoom(8)
    assert 0.05 <= await room.wait("", 0.05, lambda: FULL) < 1.0
    assert len(room) == 0


async def test_as_many_wait_as_may_and_of_one_key_a_quarter() -> None:
    room = WaitingRoom(8)
    tasks = [asyncio.create_task(room.wait("a", 5.0, lambda: FULL)) for _ in range(2)]
    await started(room, 2)
    assert await room.wait("a", 5.0, lambda: FULL) == 0.0
    tasks += [asyncio.create_task(room.wait(key, 5.0, lambda: FULL)) for key in "bcdefg"]
    await started(room, 8)
    assert await room.wait("h", 5.0, lambda: FULL) == 0.0
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
