"""Requests that would rather wait than be refused."""

import asyncio
from contextlib import ExitStack

import pytest

from gateway.admission.peers import GatewayUse, Peers
from gateway.admission.queueing import OfflineStreams, WaitingRoom
from gateway.errors import Draining
from tests.unit.gateway.admission.replicas import Replicas
from tests.waits import until
from ttscommon.wire.errors import Overloaded

FULL = Overloaded("full")


class Places:
    """So many places; whoever is let in takes one."""

    def __init__(self, free: int = 0) -> None:
        self.free = free
        self.taken: list[str] = []
        self.asked = 0

    def objection(self) -> Overloaded | None:
        self.asked += 1
        return None if self.free else FULL

    async def wait(self, room: WaitingRoom, name: str, tenant: str = "") -> bool:
        waited = await room.wait(tenant, "m", 5.0, self.objection)
        self.free -= 1
        self.taken.append(name)
        return waited


async def started(room: WaitingRoom, waiting: int) -> None:
    await until(lambda: len(room) >= waiting)


def waiting(room: WaitingRoom, tenant: str) -> asyncio.Task[bool]:
    return asyncio.create_task(room.wait(tenant, "m", 5.0, lambda: FULL))


async def ended(*tasks: asyncio.Task[bool]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_a_place_goes_to_the_one_that_came_first_and_to_it_alone() -> None:
    room, places = WaitingRoom(8), Places()
    tasks = []
    for name in ("a", "b"):
        tasks.append(asyncio.create_task(places.wait(room, name)))
        await started(room, len(tasks))
    for left in (1, 0):
        places.free += 1
        room.call_next()
        room.call_next()
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        tasks = [task for task in tasks if not task.done()]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (len(tasks), places.free) == (left, 0)
    assert places.taken == ["a", "b"]
    assert len(room) == 0


async def test_those_of_one_key_and_model_are_asked_about_once_and_take_all_that_is_free() -> None:
    room, places = WaitingRoom(32), Places()
    tasks = [asyncio.create_task(places.wait(room, name)) for name in "abcdefgh"]
    await started(room, 8)
    places.asked = 0
    room.call_next()
    assert places.asked == 1
    places.free = 8
    room.call_next()
    assert all(await asyncio.gather(*tasks))
    assert places.taken == [*"abcdefgh"]


async def test_one_whose_key_is_full_lets_others_pass() -> None:
    room, places = WaitingRoom(8), Places()
    stuck = waiting(room, "stuck")
    await started(room, 1)
    other = asyncio.create_task(places.wait(room, "other", "other"))
    await started(room, 2)
    places.free = 1
    room.call_next()
    assert await other
    await ended(stuck)
    assert len(room) == 0


async def test_what_waiting_does_not_mend_ends_it() -> None:
    room = WaitingRoom(8)
    objections = iter([FULL, FULL])

    def objection() -> Overloaded | None:
        if (one := next(objections, None)) is not None:
            return one
        raise Draining("this gateway is shutting down")

    task = asyncio.create_task(room.wait("", "m", 5.0, objection))
    await started(room, 1)
    room.call_next()
    with pytest.raises(Draining):
        await task
    assert len(room) == 0


async def test_as_many_wait_as_may_and_of_one_key_a_quarter() -> None:
    room = WaitingRoom(8)
    tasks = [waiting(room, "a") for _ in range(2)]
    await started(room, 2)
    assert not await room.wait("a", "m", 5.0, lambda: FULL)
    tasks += [waiting(room, key) for key in "bcdefg"]
    await started(room, 8)
    assert not await room.wait("h", "m", 5.0, lambda: FULL)
    await ended(*tasks)


Pressed = list[tuple[str, int]]


def full(replicas: Replicas, stack: ExitStack, peers: Peers) -> tuple[OfflineStreams, Pressed]:
    """As many as there is room for run; with what is pressed out of them."""
    offline, pressed = OfflineStreams(replicas, peers, spare=1), Pressed()
    offline.give_way = lambda model, count: pressed.append((model, count))
    for _ in range(offline.room("m")):
        stack.enter_context(offline.stream("m", "acme"))
    return offline, pressed


@pytest.mark.parametrize(
    ("slots", "held", "listeners", "gives"), [(8, 7, 0, 0), (8, 7, 3, 3), (1, 1, 1, 1)]
)
def test_they_fill_all_slots_but_the_spare_one_and_give_way_to_listeners(
    slots: int, held: int, listeners: int, gives: int
) -> None:
    replicas = Replicas(slots=slots)
    with ExitStack() as stack:
        offline, pressed = full(replicas, stack, Peers())
        assert (offline.held, offline.tenants) == ({"m": held}, {"acme": held})
        assert offline.room("m") == 0
        replicas.own["m"] = listeners
        offline.make_room("m")
        assert pressed == ([("m", gives)] if gives else [])
    assert offline.held == {}


def test_none_starts_while_listeners_have_little_left() -> None:
    short = True
    offline = OfflineStreams(Replicas(), Peers(), 1, lambda model: short)
    assert offline.room("m") == 0
    short = False
    assert offline.room("m") == 7


def test_without_workers_there_is_no_room_and_nothing_to_give() -> None:
    replicas = Replicas()
    with ExitStack() as stack:
        offline, pressed = full(replicas, stack, Peers())
        replicas.live = False
        offline.make_room("m")
        assert pressed == []
        assert offline.room("m") == 0


@pytest.mark.parametrize(
    ("theirs", "mine", "gives"), [(0, 4, []), (3, 2, [("m", 3)]), (7, 0, [("m", 4)])]
)
def test_gateways_leave_room_to_one_another_and_of_too_many_each_gives_its_part(
    theirs: int, mine: int, gives: Pressed
) -> None:
    peers = Peers()
    with ExitStack() as stack:
        offline, pressed = full(Replicas(), stack, peers)
        peers.hear(GatewayUse("other", offline={"m": theirs}), 0.0)
        assert OfflineStreams(Replicas(), peers, spare=1).room("m") == mine
        offline.make_room("m")
        assert pressed == gives
