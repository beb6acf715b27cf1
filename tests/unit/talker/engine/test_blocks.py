"""Block allocator: every block is free or owned by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from talker.engine.blocks import BLOCK_POSITIONS, BlockAllocator


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
    assert allocator.table("b") == ()
    assert allocator.free == 1


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.integers(1, 100)), max_size=60)
)
def test_no_block_has_two_owners_and_none_is_lost(
    actions: list[tuple[str, bool, int]],
) -> None:
    allocator = BlockAllocator(12)
    for owner, release, positions in actions:
        if release:
            allocator.release(owner)
        else:
            allocator.reserve(owner, positions)
        owned = [block for name in "abcd" for block in allocator.table(name)]
        assert len(owned) == len(set(owned))
        assert len(owned) + allocator.free == allocator.total
    for owner in "abcd":
        allocator.release(owner)
    assert allocator.idle
