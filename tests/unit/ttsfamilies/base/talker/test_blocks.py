"""Block allocator: every block is free or owned by one."""

from hypothesis import example, given
from hypothesis import strategies as st

from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS, BlockAllocator


def test_what_is_published_is_found_as_far_as_it_is_alike() -> None:
    allocator = BlockAllocator(8)
    allocator.reserve("a", 3 * BLOCK_POSITIONS + 1)
    allocator.publish("a", [b"1", b"2", b"3"])
    assert allocator.share("b", [b"1", b"2", b"x"]) == 2 * BLOCK_POSITIONS
    assert list(allocator.table("b")) == list(allocator.table("a"))[:2]
    assert allocator.share("c", [b"2"]) == BLOCK_POSITIONS
    assert allocator.freed(["a"]) == 2  # the third, kept, and the last
    assert allocator.freed(["a", "b", "c"]) == 4


def test_what_was_used_last_is_kept_longest_and_gives_way_when_blocks_run_out() -> None:
    allocator = BlockAllocator(4)
    for owner in "ab":
        allocator.reserve(owner, BLOCK_POSITIONS)
        allocator.publish(owner, [owner.encode()])
        allocator.give_back(allocator.take(owner))
    assert (allocator.free, allocator.kept) == (4, 2)
    allocator.share("c", [b"a"])
    allocator.give_back(allocator.take("c"))
    assert allocator.reserve("d", 3 * BLOCK_POSITIONS)
    assert allocator.share("e", [b"b"]) == 0
    assert allocator.share("e", [b"a"]) == BLOCK_POSITIONS
    assert not allocator.reserve("d", 4 * BLOCK_POSITIONS)


def test_the_beginning_of_a_prompt_outlives_what_follows_it() -> None:
    allocator = BlockAllocator(3)
    allocator.reserve("a", 3 * BLOCK_POSITIONS)
    allocator.publish("a", [b"1", b"2", b"3"])
    allocator.give_back(allocator.take("a"))
    allocator.reserve("b", 2 * BLOCK_POSITIONS)
    assert allocator.share("c", [b"1", b"2", b"3"]) == BLOCK_POSITIONS


def test_what_may_be_unsound_is_read_by_nobody_new() -> None:
    allocator = BlockAllocator(4)
    allocator.reserve("a", BLOCK_POSITIONS)
    allocator.publish("a", [b"1"])
    allocator.share("b", [b"1"])
    allocator.forget("b")
    assert allocator.share("c", [b"1"]) == 0
    for owner in "ab":
        allocator.give_back(allocator.take(owner))
    assert allocator.idle
    assert not allocator.kept


_ACTIONS = ("begin", "grow", "publish", "forget", "take", "give back")
# Streams, two of which have two branches.
_BRANCHES = {"a": 1, "b": 1, "c": 2, "d": 2}


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(_ACTIONS), st.integers(0, 4)),
        max_size=80,
    )
)
@example([("c", "begin", 1), ("c", "publish", 0), ("c", "begin", 0)])
def test_shared_blocks_hold_what_their_readers_expect(actions: list[tuple[str, str, int]]) -> None:
    """Four streams; a prompt is one of five, and its branches begin alike. Blocks are written by
    whoever may write them. Of branches that begin alike one block is published, so that a stream
    which begins again may go on with an odd number of its own; each branch has what was reserved
    for it. Every block is free, taken or owned, and a refused reservation changes nothing.
    """
    allocator = BlockAllocator(12)
    holds: dict[int, object] = {}
    expected: dict[str, list[object]] = {}
    prompts: dict[str, list[bytes]] = {}
    reserved: dict[str, int] = {}
    taken: list[list[int]] = []

    def prompt(owner: str, number: int) -> list[bytes]:
        """A branch knows of itself from the second block on."""
        branches = range(_BRANCHES[owner])
        return [
            b"%d-%d-%d" % (number, i, i and branch) for i in range(number) for branch in branches
        ]

    def write(owner: str) -> None:
        for block, content in zip(
            list(allocator.table(owner))[len(expected[owner]) :],
            [*prompts[owner][len(expected[owner]) :], *[owner] * 12],
            strict=False,
        ):
            holds[block] = content
            expected[owner].append(content)

    def reserve(owner: str, count: int) -> None:
        before = list(allocator.table(owner)), allocator.free
        if allocator.reserve(owner, count * BLOCK_POSITIONS, _BRANCHES[owner]):
            reserved[owner] = count
            write(owner)
        else:
            assert before == (list(allocator.table(owner)), allocator.free)

    for owner, action, number in actions:
        branches = _BRANCHES[owner]
        if action == "begin":
            keys = prompt(owner, number)
            held = allocator.share(owner, keys, branches) // BLOCK_POSITIONS * branches
            prompts[owner], expected[owner] = keys, list(keys[:held])
            reserved[owner] = held // branches
            reserve(owner, number + 1)
        elif action == "grow" and owner in prompts and allocator.table(owner):
            reserve(owner, len(allocator.table(owner)) // branches + 1)
        elif action == "publish" and owner in prompts:
            if len(expected[owner]) > len(prompts[owner]):
                allocator.publish(owner, prompts[owner])
        elif action == "forget":
            allocator.forget(owner)
        elif action == "take":
            taken.append(allocator.take(owner))
            expected.pop(owner, None)
            prompts.pop(owner, None)
        elif taken and action == "give back":
            allocator.give_back(taken.pop())
        for reader, contents in expected.items():
            table = list(allocator.table(reader))
            assert [holds[block] for block in table[: len(contents)]] == contents
            branches_of = [
                table[branch :: _BRANCHES[reader]] for branch in range(_BRANCHES[reader])
            ]
            assert min(map(len, branches_of)) >= reserved[reader]
        owned = {block for name in "abcd" for block in allocator.table(name)}
        away = [block for blocks in taken for block in blocks]
        assert not owned & set(away)
        assert len(set(away)) == len(away) == allocator.returning
        assert len(owned) + len(away) + allocator.free == allocator.total
        assert allocator.freed("abcd") == len(owned)
    for owner in "abcd":
        allocator.give_back(allocator.take(owner))
    for blocks in taken:
        allocator.give_back(blocks)
    assert allocator.idle


def test_branches_that_begin_alike_share_a_block_and_no_branch_is_ahead_of_the_other() -> None:
    allocator = BlockAllocator(12)
    begun = [b"same", b"same", b"told", b"not told"]
    allocator.reserve("a", 3 * BLOCK_POSITIONS, 2)
    allocator.publish("a", begun)
    assert allocator.share("b", begun, 2) == 2 * BLOCK_POSITIONS
    assert list(allocator.table("b")) == [0, 0, 2, 3]
    assert allocator.share("c", [b"same", b"same", b"told", b"other"], 2) == BLOCK_POSITIONS
    assert allocator.freed("abc") == 6
    for owner in "abc":
        allocator.give_back(allocator.take(owner))
    assert allocator.idle


def test_no_more_is_kept_than_may_be() -> None:
    allocator = BlockAllocator(12, keep=2)
    for owner in "ab":
        assert allocator.reserve(owner, 3 * BLOCK_POSITIONS)
        allocator.publish(owner, [f"{owner}{n}".encode() for n in range(3)])
        allocator.give_back(allocator.take(owner))
        assert allocator.kept == 2
        assert allocator.idle
    assert allocator.share("c", [b"b0", b"b1", b"b2"]) == 2 * BLOCK_POSITIONS
    assert allocator.share("d", [b"a0"]) == 0
    for owner in "cd":
        allocator.give_back(allocator.take(owner))
    assert allocator.idle
