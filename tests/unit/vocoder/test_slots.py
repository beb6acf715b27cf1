from __future__ import annotations

import pytest

from vocoder.engine.slots import NoSlot, Slots


def test_a_slot_comes_back_when_released() -> None:
    slots: Slots[str] = Slots(1)
    slots.take("a", "stream")
    assert (slots.free, slots.get("a")) == (0, "stream")
    assert slots.release("a") == "stream"
    assert slots.free == 1
    slots.check_idle(open_states=0)


def test_there_are_no_more_slots_than_the_capacity() -> None:
    slots: Slots[str] = Slots(2)
    slots.take("a", "x")
    slots.take("b", "y")
    with pytest.raises(NoSlot):
        slots.take("c", "z")


def test_a_key_holds_one_slot_only() -> None:
    slots: Slots[str] = Slots(2)
    slots.take("a", "x")
    with pytest.raises(NoSlot):
        slots.take("a", "x")


def test_a_second_release_changes_nothing() -> None:
    slots: Slots[str] = Slots(1)
    slots.take("a", "x")
    slots.release("a")
    assert slots.release("a") is None
    slots.check_idle(open_states=0)


@pytest.mark.parametrize("open_states", [1, -1])
def test_a_decoder_state_left_behind_is_a_leak(open_states: int) -> None:
    slots: Slots[str] = Slots(1)
    with pytest.raises(AssertionError, match="leak"):
        slots.check_idle(open_states)


def test_streams_may_be_released_while_they_are_gone_through() -> None:
    slots: Slots[str] = Slots(3)
    for key in "abc":
        slots.take(key, key)
    for stream in slots:
        slots.release(stream)
    assert slots.idle
