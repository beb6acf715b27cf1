"""Slots are bounded, and a leak is found when nobody speaks."""

from __future__ import annotations

import pytest

from ttscommon.engine.slots import NoSlot, Slots


def test_no_more_streams_than_slots() -> None:
    slots: Slots[str] = Slots(2)
    slots.take("a", "A")
    slots.take("b", "B")
    assert slots.free == 0
    with pytest.raises(NoSlot, match="taken"):
        slots.take("c", "C")


def test_a_key_holds_one_slot() -> None:
    slots: Slots[str] = Slots(2)
    slots.take("a", "A")
    with pytest.raises(NoSlot, match="already"):
        slots.require("a")


def test_streams_have_rows_of_their_own() -> None:
    slots: Slots[str] = Slots(3)
    assert len({slots.take(key, key) for key in "abc"}) == 3
    assert list(slots) == ["a", "b", "c"]
    assert slots.get("b") == "b"
    assert slots.get("d") is None


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


def test_there_is_at_least_one_slot() -> None:
    with pytest.raises(ValueError, match="one slot"):
        Slots(0)
