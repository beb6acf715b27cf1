"""Placement: which streams run in a step, after KV blocks are found for them.

Plain Python. What it promises, and tests/unit/talker/engine/test_placement.py holds it to:
a stream that runs owns blocks for all of its plan; a stream that gives way does not run in the
same step; streams give way only to one that has clearly less slack, or when no stream could run at
all, only if that makes room, and no more of them than it takes; as long as one of the claims fits
into an empty cache, one of them runs or blocks are on their way back; and some stream comes to its
next frame, however many steps that takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from ttscommon.engine.inflight import Command
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS, BlockAllocator

# Streams of nearly the same slack must not take the cache from each other in turn: between two
# exchanges of places, the one that runs makes at least twice this much sound.
MARGIN_S: Final = 0.5


class Claim(Protocol):
    """A stream that would like to run, with positions 0 .. `end` of each branch in the cache.

    sunk: steps since its last frame, which it would have to take again without its blocks.
    """

    @property
    def key(self) -> str: ...
    @property
    def slack_s(self) -> float: ...
    @property
    def end(self) -> int: ...
    @property
    def branches(self) -> int: ...
    @property
    def starved(self) -> bool: ...
    @property
    def sunk(self) -> int: ...


ClaimT = TypeVar("ClaimT", bound=Claim)


@dataclass
class Placement(Generic[ClaimT]):
    """Streams that run now, in order, and those whose blocks were taken.

    `promised`: the stream that others gave way to, if their blocks are not free yet. It comes first
    next time: otherwise a third could take them, and streams would evict each other in a circle.
    """

    run: list[ClaimT] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    promised: str | None = None


def place(
    order: Sequence[ClaimT],
    slack_of: Callable[[], Iterable[tuple[str, float]]],
    allocator: BlockAllocator,
    take: Callable[[str], object],
    promised: str | None = None,
    *,
    idle: bool = True,
) -> Placement[ClaimT]:
    """Find blocks for the claims of `order`, the most urgent first, after the `promised` one.

    slack_of: all open streams with their slack in seconds, claimed or not; asked for only when
    blocks run out. take: takes a stream's blocks; they come back at once or, with launches in
    flight, later, and then the stream they were taken for runs in a later step. idle: nothing is
    in flight, so that a stream must run now or none ever would.
    """
    placed: Placement[ClaimT] = Placement()
    running: set[str] = set()
    waiting: Claim | None = None
    if promised is not None:
        order = sorted(order, key=lambda claim: claim.key != promised)
    for claim in order:
        if claim.key in placed.evicted:
            continue
        missing = allocator.missing(claim.key, claim.end, claim.branches)
        if missing > 0:
            if _stands_back(claim, waiting, promised) or not _make_room(
                claim, missing, slack_of, running, placed, allocator, take
            ):
                if waiting is None and (claim.starved or claim.key == promised):
                    waiting = claim
                continue
            allocator.reserve(claim.key, claim.end, claim.branches)
        placed.run.append(claim)
        running.add(claim.key)
    if idle and not placed.run:
        _force(order, slack_of, placed, allocator, take)
    return placed


def _stands_back(claim: Claim, waiting: Claim | None, promised: str | None) -> bool:
    """Others must not live on the blocks that a starved stream is waiting for.

    But one in the middle of a frame goes on: it would be taken for the one that waits, lose its
    steps, wait in its turn, and both would begin again for ever.
    """
    return waiting is not None and (waiting.key == promised or not claim.sunk)


def _make_room(
    claim: Claim,
    missing: int,
    slack_of: Callable[[], Iterable[tuple[str, float]]],
    running: set[str],
    placed: Placement[ClaimT],
    allocator: BlockAllocator,
    take: Callable[[str], object],
) -> bool:
    """Whether `missing` blocks are free now, if need be after others gave way."""
    if missing > allocator.free + allocator.returning:
        least_s = claim.slack_s + MARGIN_S
        holders = [
            (key, slack_s)
            for key, slack_s in slack_of()
            if key != claim.key and key not in running and slack_s >= least_s
        ]
        for victim in victims(holders, missing, allocator):
            take(victim)
            placed.evicted.append(victim)
            placed.promised = placed.promised or claim.key
    return missing <= allocator.free


def _force(
    order: Sequence[ClaimT],
    slack_of: Callable[[], Iterable[tuple[str, float]]],
    placed: Placement[ClaimT],
    allocator: BlockAllocator,
    take: Callable[[str], object],
) -> None:
    """No stream could run: the most urgent that can, does, whatever slack the others have. Those
    that would lose most come first, or steps would be lost in turn.
    """
    for claim in sorted(order, key=lambda claim: -claim.sunk):
        missing = allocator.missing(claim.key, claim.end, claim.branches)
        holders = [(key, slack_s) for key, slack_s in slack_of() if key != claim.key]
        for victim in victims(holders, missing, allocator):
            take(victim)
            placed.evicted.append(victim)
            placed.promised = claim.key
        if allocator.reserve(claim.key, claim.end, claim.branches):
            placed.run.append(claim)
        if placed.run or placed.evicted:
            return


def victims(
    holders: Iterable[tuple[str, float]], missing: int, allocator: BlockAllocator
) -> list[str]:
    """The streams that give way so that `missing` blocks come free: those with most slack.

    None if all of `holders` together would not make room, and never one that is not needed.
    """
    missing -= allocator.free + allocator.returning
    chosen: list[str] = []
    for key, _ in sorted(holders, key=lambda holder: (-holder[1], holder[0])):
        if allocator.freed(chosen) >= missing:
            break
        if allocator.table(key):
            chosen.append(key)
    if allocator.freed(chosen) < missing:
        return []
    for key in list(chosen):  # a large one at the end may make small ones before it needless
        others = [other for other in chosen if other != key]
        if allocator.freed(others) >= missing:
            chosen = others
    return chosen


class CacheSpace:
    """A model's KV cache as the engine sees it: how long a prompt may get, and who has what.

    A model without caches has room for all streams.
    """

    def __init__(
        self,
        blocks: int,
        max_positions: int,
        release: Callable[[Command], object],
        keep: int | None = None,
    ) -> None:
        """`blocks`: none for a model without caches. `release`: see InFlight.release. `keep`: see
        BlockAllocator.
        """
        self._allocator = BlockAllocator(blocks, keep) if blocks else None
        self._most_positions = max_positions
        self._release = release
        self._promised: str | None = None

    @property
    def idle(self) -> bool:
        return self._allocator is None or self._allocator.idle

    @property
    def blocks(self) -> tuple[int, int]:
        """Free blocks, and all blocks."""
        return (0, 0) if self._allocator is None else (self._allocator.free, self._allocator.total)

    @property
    def kept(self) -> int:
        """Blocks without an owner that later requests may begin with."""
        return 0 if self._allocator is None else self._allocator.kept

    def most_positions(self, branches: int = 1) -> int:
        """Of a stream with so many branches, in each of them."""
        if self._allocator is None:
            return self._most_positions
        return min(self._most_positions, self._allocator.total // branches * BLOCK_POSITIONS)

    def free_for(self, sequences: int) -> bool:
        """Whether so many could take one more block each without evicting a stream."""
        return self._allocator is None or self._allocator.free >= sequences

    def table(self, key: str) -> Sequence[int]:
        """The stream's blocks, in the order of the positions they hold."""
        return () if self._allocator is None else self._allocator.table(key)

    def share(self, key: str, prefix: Sequence[bytes], branches: int = 1) -> int:
        """Have a sequence of the stream begin; returns the positions that are known already."""
        return 0 if self._allocator is None else self._allocator.share(key, prefix, branches)

    def publish(self, key: str, prefix: Sequence[bytes]) -> None:
        """The stream's prompt was computed, and is sound: others may begin with what it shares."""
        if self._allocator is not None and prefix:
            self._allocator.publish(key, prefix)

    def forget(self, key: str) -> None:
        """The stream's blocks may be unsound: none of them is shared from now on."""
        if self._allocator is not None:
            self._allocator.forget(key)

    def place(
        self,
        order: Sequence[ClaimT],
        slack_of: Callable[[], Iterable[tuple[str, float]]],
        evict: Callable[[str], object],
        *,
        idle: bool,
    ) -> list[ClaimT]:
        """Those of `order` that run now; `evict` is called for those that gave way."""
        if self._allocator is None:
            return list(order)
        allocator, promised = self._allocator, self._promised
        placed = place(order, slack_of, allocator, self.free, promised, idle=idle)
        waiting = {claim.key for claim in order} - {claim.key for claim in placed.run}
        promised = placed.promised or promised
        self._promised = promised if promised in waiting else None
        for key in placed.evicted:
            evict(key)
        return placed.run

    def free(self, key: str) -> None:
        """Take the stream's blocks back, as soon as nothing in flight may write them."""
        allocator = self._allocator
        if allocator is not None and (blocks := allocator.take(key)):
            self._release(lambda: allocator.give_back(blocks))
