"""Placement: who runs and who gives way when KV blocks run out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from talker.engine.placement import MARGIN_S, Placement, place, victims
from talker.engine.scheduler import StepLimits
from talker.engine.stream import Stream
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Text
from ttscommon.wire.requests import OFFLINE
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS, BlockAllocator, blocks_for
from ttsfamilies.base.talker.parts import Parts
from ttsfamilies.fake.talker import FakeModel, Manner, StepCurve


@dataclass(frozen=True)
class Claimant:
    """A stream that would like to run."""

    key: str
    slack_s: float
    end: int
    starved: bool = False
    branches: int = 1
    sunk: int = 0


class Cache:
    """An allocator whose taken blocks come back at once, or when told."""

    def __init__(self, blocks: int, *, at_once: bool = True) -> None:
        self.allocator = BlockAllocator(blocks)
        self._at_once = at_once
        self.away: list[list[int]] = []

    def hold(self, **blocks: int) -> Cache:
        for key, count in blocks.items():
            assert self.allocator.reserve(key, count * BLOCK_POSITIONS)
        return self

    def take(self, key: str) -> None:
        self.away.append(self.allocator.take(key))
        if self._at_once:
            self.settle()

    def settle(self) -> None:
        while self.away:
            self.allocator.give_back(self.away.pop())

    def place(self, order: list[Any], *, idle: bool = True, **others: float) -> Placement[Any]:
        slacks = {**{claim.key: claim.slack_s for claim in order}, **others}
        return place(order, slacks.items, self.allocator, self.take, idle=idle)


def blocks(count: int) -> int:
    return count * BLOCK_POSITIONS


def needed(claim: Claimant) -> int:
    """Blocks of all its branches."""
    return claim.branches * blocks_for(claim.end)


def ran(placement: Placement[Any]) -> list[str]:
    return [claim.key for claim in placement.run]


def test_the_stream_with_most_slack_gives_way_and_does_not_run_on_its_old_plan() -> None:
    cache = Cache(4).hold(rich=2, fine=2)
    order = [
        Claimant("new", 0.0, blocks(2)),
        Claimant("fine", 3.0, blocks(2)),
        Claimant("rich", 9.0, blocks(2)),
    ]
    placed = cache.place(order)
    assert placed.evicted == ["rich"]
    assert ran(placed) == ["new", "fine"]


def test_nobody_gives_way_in_vain() -> None:
    cache = Cache(4).hold(rich=1, poor=3)
    placed = cache.place([Claimant("big", 0.2, blocks(3)), Claimant("poor", 0.1, 1)], rich=9.0)
    assert ran(placed) == ["poor"]
    assert not placed.evicted


def test_no_more_give_way_than_it_takes() -> None:
    allocator = Cache(9).hold(a=1, b=1, c=6).allocator
    assert victims([("a", 9.0), ("b", 8.0), ("c", 7.0)], 7, allocator) == ["c"]
    assert victims([("a", 9.0), ("b", 8.0), ("c", 7.0)], 8, allocator) in (["a", "c"], ["b", "c"])
    assert victims([("a", 9.0), ("b", 8.0)], 7, allocator) == []


def test_if_nobody_could_run_the_first_does() -> None:
    cache = Cache(4).hold(a=2, b=2)
    order = [Claimant("a", 1.0, blocks(3)), Claimant("b", 1.0, blocks(3))]
    assert not cache.place(order, idle=False).run  # a launch in flight may end a stream
    placed = cache.place([Claimant("huge", 1.0, blocks(9)), *order])  # that never could
    assert ran(placed) == ["a"]
    assert placed.evicted == ["b"]


def test_blocks_that_a_starved_stream_waits_for_are_not_given_to_others() -> None:
    cache = Cache(4).hold(running=2)
    order = [
        Claimant("starved", 5.0, blocks(3), starved=True),
        Claimant("running", 5.0, blocks(2)),
        Claimant("small", 5.0, blocks(1)),
    ]
    assert ran(cache.place(order)) == ["running"]
    assert cache.allocator.free == 2


def test_a_stream_that_others_gave_way_to_comes_first_next_time() -> None:
    cache = Cache(4, at_once=False).hold(rich=4)
    new, urgent = Claimant("new", 0.5, blocks(3)), Claimant("urgent", 0.0, blocks(2))
    first = cache.place([new], rich=9.0)
    assert (ran(first), first.promised) == ([], "new")
    both = [urgent, new]
    waiting = place(both, dict, cache.allocator, cache.take, first.promised, idle=False)
    assert (ran(waiting), waiting.evicted) == ([], [])  # a launch still writes what it waits for
    cache.settle()
    settled = place(both, dict, cache.allocator, cache.take, first.promised)
    assert ran(settled) == ["new"]


streams_ = st.lists(
    st.tuples(
        st.integers(0, 6),  # blocks held
        st.integers(1, 8 * BLOCK_POSITIONS),  # positions needed
        st.floats(-5, 20),  # slack
        st.booleans(),  # would like to run
        st.booleans(),  # starved
        st.integers(1, 2),  # branches
    ),
    min_size=1,
    max_size=10,
)


@given(streams_, st.integers(8, 30), st.booleans())
def test_what_placement_promises(
    streams: list[tuple[int, int, float, bool, bool, int]], total: int, at_once: bool
) -> None:
    cache = Cache(total, at_once=at_once)
    allocator = cache.allocator
    slacks: dict[str, float] = {}
    claims: list[Claimant] = []
    for index, (held, end, slack_s, wants, starved, branches) in enumerate(streams):
        key = f"s{index}"
        slacks[key] = slack_s
        if held and not allocator.reserve(key, blocks(held), branches):
            held = 0
        if wants:
            claims.append(Claimant(key, slack_s, end, starved, branches))
    order = sorted(claims, key=lambda claim: claim.slack_s)
    before = {key: len(allocator.table(key)) for key in slacks}
    free = allocator.free
    placed = place(order, slacks.items, allocator, cache.take, idle=at_once)

    owned = [block for key in slacks for block in allocator.table(key)]
    assert len(owned) == len(set(owned))
    assert len(owned) + allocator.free + allocator.returning == total
    for claim in placed.run:
        assert len(allocator.table(claim.key)) >= needed(claim)
        assert not len(allocator.table(claim.key)) % claim.branches
        assert claim.key not in placed.evicted
    assert not any(allocator.table(key) for key in placed.evicted)
    assert all(before[key] for key in placed.evicted)
    if placed.evicted:
        neediest = min(claim.slack_s for claim in order)
        forced = len(placed.run) <= 1
        for key in placed.evicted:
            assert forced or slacks[key] >= neediest + MARGIN_S
        assert sum(max(0, needed(claim) - before[claim.key]) for claim in order) > free
    if at_once and order and min(map(needed, order)) <= total:
        assert placed.run


@given(st.integers(2, 7), st.integers(8, 14), st.randoms(use_true_random=False))
def test_every_stream_ends(count: int, total: int, random: object) -> None:
    """Streams grow by a position each time they run; time passes; all of them finish."""
    choose: Callable[[int, int], int] = random.randint  # type: ignore[attr-defined]
    cache = Cache(total)
    length = {f"s{i}": choose(40, blocks(8)) for i in range(count)}
    grown = dict.fromkeys(length, 20)
    slack_s = dict.fromkeys(length, 0.0)
    turns = 0
    while length:
        turns += 1
        assert turns < 20_000, "no stream may wait for good"
        claims = [Claimant(key, slack_s[key], grown[key] + 1) for key in length]
        claims.sort(key=lambda claim: claim.slack_s)
        placed = cache.place(claims)
        assert placed.run
        for claim in placed.run:
            grown[claim.key] += 1
            slack_s[claim.key] += 0.04
            if grown[claim.key] >= length[claim.key]:
                cache.take(claim.key)
                del length[claim.key]
        for key in slack_s:
            slack_s[key] -= 0.02
    assert cache.allocator.idle


def stream(key: str, priority: int, *, now: float = 0.0) -> Stream:
    """One that is ready to step, `now` seconds after it came."""
    request = SpeechRequest(key, "vesper", "slt", "Hello there.", priority=priority)
    model = FakeModel("vesper", StepCurve(), manner=Manner(cached=True))
    prepared = model.prepare(request)
    units = list(prepared.read([Text(request.text)], final=True))
    one = Stream(request, Parts(model, prepared), 25.0, 0.0, StepLimits().starved_s)
    one.feed(units, final=True)
    assert one.plan(0.0, 100, 1000)
    assert one.plan(now, 100, 1000)
    return one


def test_a_job_does_not_starve() -> None:
    book = stream("book", OFFLINE, now=60.0)
    assert (book.waited_s, book.starved, book.startup) == (0.0, False, False)
    assert stream("heard", 5, now=60.0).starved


def test_a_job_gives_its_blocks_to_listeners_and_not_to_others_like_it() -> None:
    cache, heard = Cache(1), stream("heard", 5)
    book, other = (stream(name, OFFLINE) for name in ("book", "other"))
    slacks = {one.key: one.slack_s for one in (book, other, heard)}
    assert ran(cache.place([book], idle=False, **slacks)) == ["book"]
    assert ran(cache.place([other], idle=False, **slacks)) == []
    placed = cache.place([heard], idle=False, **slacks)
    assert (ran(placed), placed.evicted) == (["heard"], ["book"])
