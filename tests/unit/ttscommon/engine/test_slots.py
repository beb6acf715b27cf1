"""Slots are bounded, launches in flight keep theirs, and who is to blame for one that fails."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttscommon.engine.inflight import DeviceError, InFlight, launch_bisected
from ttscommon.engine.slots import NoSlot, OfflineShare, OfflineTuning, Slots


def test_no_more_streams_than_slots() -> None:
    slots: Slots[str] = Slots(2)
    slots.take("a", "A")
    slots.take("b", "B")
    assert slots.free == 0
    with pytest.raises(NoSlot, match="taken"):
        slots.take("c", "C")
    with pytest.raises(NoSlot, match="already"):
        slots.require("a")
    with pytest.raises(ValueError, match="one slot"):
        Slots(0)


def test_a_row_that_is_still_written_is_not_taken_again() -> None:
    slots: Slots[str] = Slots(1, spare=1)
    first = slots.take("a", "A")
    assert slots.release("a") == ("A", first)
    second = slots.take("b", "B")
    assert second != first
    slots.release("b")
    with pytest.raises(NoSlot):
        slots.take("c", "C")  # both rows may still be written
    assert slots.idle is False
    slots.give_back(first)
    slots.give_back(second)
    assert bool(slots.idle)
    assert slots.take("c", "C") in (first, second)


def test_releasing_twice_gives_nothing_back_twice() -> None:
    slots: Slots[str] = Slots(1)
    index = slots.take("a", "A")
    assert slots.release("a") is not None
    assert slots.release("a") is None
    slots.give_back(index)
    with pytest.raises(AssertionError, match="twice"):
        slots.give_back(index)


def test_a_listener_is_expected_for_a_while_after_the_last_one() -> None:
    share = OfflineShare(OfflineTuning(expected_s=5.0))
    assert not share.expects(0.0)
    share.heard(1.0)
    assert share.expects(5.9)
    assert not share.expects(6.0)


def test_steps_become_as_large_as_there_is_time_for() -> None:
    share = OfflineShare(OfflineTuning(step_s=0.010))
    share.heard(0.0)
    for _ in range(100):
        share.stepped(0.0, 0.002 * share.size, share.size)
    assert share.size in (4, 5)
    for _ in range(10):
        share.stepped(0.0, 0.5, share.size)
    assert share.size == 1


def test_a_step_that_was_not_full_says_nothing_of_larger_ones() -> None:
    share = OfflineShare()
    share.heard(0.0)
    for _ in range(20):
        share.stepped(0.0, 0.001, 1)
    assert share.size == 2


def test_half_of_the_time_is_left() -> None:
    share = OfflineShare(OfflineTuning(share=0.5))
    share.stepped(0.0, 0.010, 1)
    assert share.pause_s(0.0) <= 0.0
    share.heard(0.0)
    share.stepped(1.0, 0.010, 1)
    assert share.pause_s(1.0) == pytest.approx(0.010)


def test_nothing_is_taken_while_a_listener_comes() -> None:
    share = OfflineShare(OfflineTuning(first_s=0.5))
    share.coming(1.0)
    assert share.expects(1.0)
    assert share.pause_s(1.4) > 0.0
    assert share.pause_s(1.5) <= 0.0


def test_nothing_is_given_back_before_every_launch_that_may_write_it_is_collected() -> None:
    flight: InFlight[str] = InFlight()
    given_back: list[str] = []
    flight.release(lambda: given_back.append("unused"))
    assert given_back == ["unused"]
    flight.launched("one")
    flight.launched("two")
    flight.release(lambda: given_back.append("block"))
    assert flight.oldest() == "one"
    flight.settle()
    assert given_back == ["unused"]
    flight.launched("three")
    flight.settle()
    assert given_back == ["unused", "block"]
    assert len(flight) == 1


@given(st.integers(1, 40), st.sets(st.integers(0, 39)))
def test_only_the_guilty_fail_and_all_others_are_launched_once_in_order(
    count: int, guilty: set[int]
) -> None:
    launches = 0

    def launch(rows: Sequence[int]) -> list[int]:
        nonlocal launches
        launches += 1
        if guilty & set(rows):
            raise ValueError("guilty")
        return list(rows)

    rows = list(range(count))
    launched, failed = launch_bisected(rows, launch)
    assert [row for part, ticket in launched for row in ticket] == sorted(set(rows) - guilty)
    assert all(list(part) == ticket for part, ticket in launched)
    assert [row for row, _ in failed] == sorted(set(rows) & guilty)
    assert launches <= 1 + 12 * len(failed)  # two for each halving of at most 40 rows


def test_an_error_of_the_device_is_nobodys() -> None:
    def launch(rows: Sequence[int]) -> None:
        raise DeviceError("gone")

    with pytest.raises(DeviceError):
        launch_bisected([1, 2], launch)
