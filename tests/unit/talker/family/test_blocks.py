"""Block allocator: every block is free or owned by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from talker.family.blocks import BLOCK_POSITIONS, BlockAllocator


def test_a_reservation_covers_its_positions_and_grows() -> None:
    allocator = BlockAllocator(4)
    assert allocator.reserve("a", 1)
    assert len(allocator.table("a")) == 1
    assert allocator.reserve("a", BLOCK_POSITIONS + 1)
    assert len(allocator.table("a")) == 2


def test_a_refused_reservation_changes_nothing() -> None:
    allocator = BlockAllocator(2)
    assert allocator.reserve("a", BLOCK_POSITIONS)
    assert not allocator.reserve("b", 2 * BLOCK_POSITIONS)
    assert not allocator.table("b")
    assert allocator.free == 1


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(("reserve", "take", "give back"))),
        max_size=60,
    ),
    st.integers(1, 100),
)
def test_no_block_has_two_owners_and_none_is_lost(
    actions: list[tuple[str, str]], positions: int
) -> None:
    allocator = BlockAllocator(12)
    taken: list[list[int]] = []
    for owner, action in actions:
        if action == "reserve":
            allocator.reserve(owner, positions)
        elif action == "take":
            taken.append(allocator.take(owner))
        elif taken:
            allocator.give_back(taken.pop())
        owned = [block for name in "abcd" for block in allocator.table(name)]
        away = [block for blocks in taken for block in blocks]
        assert len(owned + away) == len({*owned, *away})
        assert len(away) == allocator.returning
        assert len(owned) + len(away) + allocator.free == allocator.total
    for owner in "abcd":
        allocator.give_back(allocator.take(owner))
    for blocks in taken:
        allocator.give_back(blocks)
    assert allocator.idle
