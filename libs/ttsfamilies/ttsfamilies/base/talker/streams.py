"""A stream inside a family, what to compute of it next, and the interface to what computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import SaidText, WordTime


@dataclass(frozen=True, slots=True)
class Plan:
    """The next step of a stream computes positions start .. start + count of its cache.

    `start` 0 means that nothing cached is needed any more. Positions before `start` are cached.
    `decode`: an ordinary step, whose inputs are in the slot's state; everything else is a prompt.
    Of its positions the first is certain, and the model drafts those behind it. `rounds`: so many
    such steps in one, one behind the other, of as many positions each.
    `begins`: a prompt of two positions, whose inputs are in the slot's state as well: a step may
    begin with it. Position 0 then comes on top of those that the step has.
    `certain`: of none is it drafted: the positions are frames of a segment that its prompt has told
    of already, from `start` on, and the step gains as many of them as the segment has.
    `partial`: more of the prompt follows in a later step, and no frame is sampled in this one.
    `grain`: a prompt is cut behind so many positions only: behind each where it follows from those
    before it, behind a pass over all of a segment where they attend to each other both ways.
    `work`: what the step counts for in the engine's budget of positions, if not their number.
    """

    start: int
    count: int
    decode: bool = False
    partial: bool = False
    certain: bool = False
    grain: int = 1
    work: int = 0
    rounds: int = 1
    begins: bool = False

    def __post_init__(self) -> None:
        if self.start < 0 or self.count < 1:
            raise ValueError("a plan starts at 0 or later and computes something")
        if not self.decode and self.count % self.grain:
            raise ValueError("a prompt is made of whole grains")

    @property
    def end(self) -> int:
        return self.start + self.count

    @property
    def whole(self) -> bool:
        """Its positions belong together: it is a piece of work, not a row among many."""
        return self.certain or self.grain > 1

    @property
    def width(self) -> int:
        """Positions of a round."""
        return (self.count - self.begins) // self.rounds

    def widened(self, width: int, limit: int, rounds: int = 1) -> Plan:
        """A decode plan with `width` positions in each round, as far as there are `limit`."""
        left = limit - self.start - self.begins
        rounds = max(1, min(rounds, left // width))
        count = self.begins + max(1, min(width * rounds, left))
        return Plan(self.start, count, decode=True, rounds=rounds, begins=self.begins)

    def cut(self, count: int) -> tuple[Plan, Plan | None]:
        """The first positions, as many as `count` have room for, in whole grains and one at the
        least, and the rest if there is one. Steps are not cut.
        """
        each = max(1, self.work // self.count)
        count = max(self.grain, count // each // self.grain * self.grain)
        if count >= self.count or self.decode:
            return self, None
        rest = self._part(self.start + count, self.count - count)
        return replace(self._part(self.start, count), partial=True), rest

    def _part(self, start: int, count: int) -> Plan:
        work = self.work * count // self.count
        return replace(self, start=start, count=count, work=work, begins=False)


class SlotWriter(Protocol):
    """Writes a stream's own row of the per-slot state, before the next launch reads it."""

    def __call__(self, name: str, value: Any, at: int = 0) -> None:
        """Set field `name` to a number or an array, the latter from its element `at` on."""


class Caught(NamedTuple):
    """A runaway: its sign (see `signs`), at which frame, and what came of it.

    redraw: the number of the draw that followed, 0 where the utterance was left.
    """

    sign: str
    frame: int
    redraw: int


@dataclass(frozen=True, slots=True)
class CutShort:
    """Some of the text was left unsaid. word: the last one that was reached, if that is known."""

    word: str = ""


class Taken(NamedTuple):
    """Frames that leave their stream, the words that end in them, and text that the model said with
    them: raw frames as a family gives them, rendered ones as its engine does.

    prefill: when the first launch of the stream began and when its prompt was computed, by the
    engine's clock; in the first chunk only.
    """

    frames: Arrays
    words: tuple[WordTime, ...] = ()
    said: tuple[SaidText, ...] = ()
    prefill: tuple[float, float] | None = None


class Progress(NamedTuple):
    """What a guard is told of the utterance that is spoken.

    begun: its first frame; 0 where a text is one. longest_s: seconds of it at the most; None where
    the text's length has to do. waited: frames of it that only waited for text. reached: tokens of
    it that were reached by frame, and word: the one that was reached, where the family knows.
    """

    begun: int = 0
    longest_s: float | None = None
    waited: int = 0
    reached: Sequence[int] = ()
    word: str = ""


class TalkerStream(ABC):
    """One request inside a family: its text, what to compute next, and what was computed.

    Host only, no tensors; used by one thread.
    """

    @property
    @abstractmethod
    def frames(self) -> int:
        """Frames known so far: restored, taken and pending."""

    @property
    def branches(self) -> int:
        """Sequences that are computed side by side and share what is sampled: one, or two with
        guidance. They have the same positions, and each its own prompt, rows in the cache and in
        attention; they are placed and evicted together. The same for all that a stream computes.
        """
        return 1

    @property
    def extent(self) -> int:
        """Positions that the sequence is expected to come to, its prompt included; 0 where that is
        not known.
        """
        return 0

    @property
    @abstractmethod
    def done(self) -> bool:
        """All text is spoken; nothing will be computed any more."""

    def progress(self) -> Progress:
        """What there is to tell of the one that is spoken."""
        return Progress()

    def leave(self) -> bool:
        """Go on with what follows the utterance; False if that is not known to be anything."""
        return False

    @abstractmethod
    def feed(self, units: Sequence[Any], *, final: bool) -> None:
        """Take what `Prepared.read` made of later text; after `final` there is no more."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> None:
        """Go on after these logged frames, all of the request so far; before the first plan."""

    @abstractmethod
    def rewind(self, frames: int) -> None:
        """Cache and slot state are gone, what was in flight is lost, and frames but the first
        `frames` are forgotten, of which none was taken: the next plan starts at 0 and rebuilds.
        """

    @abstractmethod
    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        """The next step, or None while text is missing or when done. Changes nothing.

        `ahead` steps are in flight; suppose that each gained the frames it usually does and ended
        nothing. `dry`: the listener is about to run out of sound, so that a family that can do
        without text that is late does so, and logs it.
        """

    def prefix(self) -> Sequence[bytes]:
        """Keys of the blocks that the present sequence begins with and that other requests may
        begin with as well: see `prefixes.keys`, and of several branches `prefixes.of_branches`.
        Asked for when a plan starts at 0.
        """
        return ()

    @abstractmethod
    def inputs(self, plan: Plan, branch: int = 0) -> Arrays:
        """What `ModelSpec.inputs` names, a row for each position of the plan.

        For a decode plan as well, when nothing is in flight: on the CPU one launch may mix both.
        """

    @abstractmethod
    def stage(self, write: SlotWriter) -> None:
        """Write what of the slot's state the device cannot know by itself, if it changed."""

    @abstractmethod
    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        """Take a step's result: 0 .. n raw frames, and positions 0 .. `cached` in the cache.

        `ended`: the sequence is over; the next plan starts another at 0.
        """

    @abstractmethod
    def take(self, count: int) -> Taken:
        """The oldest `count` frames that were not taken yet."""


# The field of a slot's state, and of raw frames, that noise is keyed by.
SEED: Final = "seed"
_OTHER: Final = 0x9E3779B97F


def other_seed(seed: int, redraw: int) -> int:
    """What a redraw draws with; the seed itself for none."""
    return seed ^ (redraw * _OTHER)


# What an engine has computed: launched now, collected in order, perhaps a step later.


@dataclass(slots=True)
class Row:
    """A stream's part of a launch: what to compute, where its state is, which blocks it owns.

    branch: of rows that `sequences` made, whose blocks are of this branch alone. draw: the number
    of the draw; see Guard.
    """

    stream: TalkerStream
    slot: int
    plan: Plan
    blocks: Sequence[int]
    branch: int = 0
    draw: int = 0

    def stage(self, write: SlotWriter) -> None:
        """See TalkerStream; a redraw has a seed of its own."""

        def reseeded(name: str, value: Any, at: int = 0) -> None:
            write(name, other_seed(value, self.draw) if name == SEED else value, at)

        self.stream.stage(reseeded if self.draw else write)


def sequences(rows: Sequence[Row]) -> list[Row]:
    """A row for each branch: the first of all rows, and then the second of those that have two."""
    second = [_of_branch(row, 1) for row in rows if row.stream.branches > 1]
    return [*(_of_branch(row, 0) for row in rows), *second]


def _of_branch(row: Row, branch: int) -> Row:
    if (branches := row.stream.branches) == 1:
        return row
    return Row(row.stream, row.slot, row.plan, row.blocks[branch::branches], branch)


@dataclass(slots=True)
class Results:
    """What a launch gave, one row for each of its rows, on the host.

    frames: raw fields, [rows, width, ...]. gained: frames of each row. kept: positions of each row
    that stay in the cache.
    """

    frames: Arrays
    gained: Sequence[int]
    ended: Sequence[bool]
    bad: Sequence[bool]
    kept: Sequence[int]

    def row(self, row: int) -> dict[str, Array]:
        """The frames that this row gained."""
        gained = self.gained[row]
        return {name: array[row, :gained] for name, array in self.frames.items()}


class Runner(Protocol):
    """Computes launches in order.

    depth: how many launches may be in flight when the oldest is collected: none where a launch
    blocks until it is computed, one where a device computes while the host works. width: most
    positions of a decode step, all but the first drafted.
    """

    depth: int
    width: int

    def record(self, streams: int, positions: int) -> None:
        """Make launches ready of up to so many streams and positions of prompts: once, before
        there are any. Takes seconds on a device. Raises DeviceError.
        """

    def launch(self, rows: Sequence[Row]) -> Any:
        """Begin to compute, after staging the rows' slots; returns a ticket for `collect`.

        Raises before any state has changed, or raises DeviceError.
        """

    def collect(self, ticket: Any) -> Results:
        """Wait for a launch. Raises DeviceError."""

    def paths(self, ticket: Any) -> Sequence[LaunchPath]:
        """How each part of a launch was computed: see LaunchPath."""

    def render(self, raw: Arrays) -> Arrays:
        """Frames of many streams, one after the other, made ready for the log."""
