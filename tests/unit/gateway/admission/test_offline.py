"""Streams without listeners: they fill what is left, and leave when listeners come."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import pytest

from gateway.admission.offline import OfflineStreams
from gateway.admission.peers import GatewayUse, Peers
from ttscommon.cluster.admission.capacity import View
from ttscommon.wire.replicas import Replica


class Replicas:
    """Stands for the catalogue: one talker and one vocoder, or none."""

    def __init__(self, slots: int = 8) -> None:
        self.own, self.offline = Counter[str](), Counter[str]()
        self.slots = slots

    def served(self) -> list[str]:
        return ["m"]

    def adopt(self, model: str) -> None:
        """Nothing is resumed here."""

    def capacity(self, model: str) -> View:
        talkers = (Replica("t", "talker", (), self.slots, 0),) if self.slots else ()
        vocoders = (Replica("v", "vocoder", (), 64, 0),)
        return View(talkers, vocoders, self.own[model], 25.0)


class Pressed(list[tuple[str, int]]):
    def __call__(self, model: str, count: int) -> None:
        self.append((model, count))


def full(replicas: Replicas, stack: ExitStack, peers: Peers | None = None) -> OfflineStreams:
    """As many as there is room for run."""
    offline = OfflineStreams(replicas, peers or Peers(), spare=1)
    for _ in range(offline.room("m")):
        stack.enter_context(offline.stream("m", "acme"))
    return offline


def test_they_fill_all_slots_but_the_spare_one() -> None:
    with ExitStack() as stack:
        offline = full(Replicas(), stack)
        assert offline.held == {"m": 7}
        assert offline.tenants == {"acme": 7}
        assert offline.room("m") == 0
    assert offline.held == {}


def test_listeners_press_out_as_many_as_they_are() -> None:
    replicas, pressed = Replicas(), Pressed()
    with ExitStack() as stack:
        offline = full(replicas, stack)
        offline.pressed = pressed
        offline.heed("m")
        assert pressed == []
        replicas.own["m"] = 3
        offline.heed("m")
        assert pressed == [("m", 3)]


def test_none_starts_while_listeners_have_little_left() -> None:
    short = [True]
    offline = OfflineStreams(Replicas(), Peers(), 1, lambda model: short[0])
    assert offline.room("m") == 0
    short.clear()
    short.append(False)
    assert offline.room("m") == 7


def test_a_single_slot_is_filled_while_no_listener_is_there() -> None:
    replicas, pressed = Replicas(slots=1), Pressed()
    with ExitStack() as stack:
        offline = full(replicas, stack)
        offline.pressed = pressed
        assert offline.held == {"m": 1}
        replicas.own["m"] = 1
        offline.heed("m")
        assert pressed == [("m", 1)]


def test_without_workers_there_is_no_room_and_nothing_to_give() -> None:
    replicas, pressed = Replicas(), Pressed()
    with ExitStack() as stack:
        offline = full(replicas, stack)
        offline.pressed = pressed
        replicas.slots = 0
        offline.heed("m")
        assert pressed == []
        assert offline.room("m") == 0


@pytest.mark.parametrize(("theirs", "mine"), [(0, 4), (3, 2), (7, 0)])
def test_gateways_leave_room_to_one_another(theirs: int, mine: int) -> None:
    peers = Peers()
    peers.hear(GatewayUse("other", offline={"m": theirs}), 0.0)
    assert OfflineStreams(Replicas(), peers, spare=1).room("m") == mine


def test_of_too_many_each_gateway_gives_its_part() -> None:
    replicas, peers, pressed = Replicas(), Peers(), Pressed()
    with ExitStack() as stack:
        offline = full(replicas, stack)
        offline.pressed = pressed
        peers.hear(GatewayUse("other", offline={"m": 7}), 0.0)
        offline = OfflineStreams(replicas, peers, spare=1)
        offline.pressed = pressed
        offline.heed("m")
    assert pressed == [("m", 4)]
