"""A stream inside a family: what to compute next, and the books of what was computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field, rows
from ttscommon.wire.messages import SaidText, WordTime


@dataclass(frozen=True, slots=True)
class Plan:
    """The next step of a stream computes positions start .. start + count of its cache.

    `start` 0 means that nothing cached is needed any more. Positions before `start` are cached.
    `decode`: an ordinary step, whose inputs are in the slot's state; everything else is a prompt.
    Of its positions the first is certain, and the model drafts those behind it. `rounds`: so many
    such steps in one, one behind the other, of as many positions each.
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
        return self.count // self.rounds

    def widened(self, width: int, limit: int, rounds: int = 1) -> Plan:
        """A decode plan with `width` positions in each round, as far as there are `limit`."""
        left = limit - self.start
        rounds = max(1, min(rounds, left // width))
        return Plan(self.start, max(1, min(width * rounds, left)), decode=True, rounds=rounds)

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
        return replace(self, start=start, count=count, work=self.work * count // self.count)


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
    """Raw frames, the words that end in them, and text that the model said with them."""

    frames: Arrays
    words: tuple[WordTime, ...] = ()
    said: tuple[SaidText, ...] = ()


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


# How long what is said may sound, by the length of its text.


# Of text, in letters: a digit is read as a word, and a Chinese character as a syllable.
_DIGIT, _SYLLABLE, _STOP = 6.0, 4.0, 4.0
_STOPS: Final = frozenset(".,;:!?…—\n。！？、，")
_FIRST_SYLLABLE: Final = "\u2e80"
# Text of a request at its slowest, and silence before and behind it.
_LETTERS_A_SECOND: Final = 5.0
_BEYOND_S: Final = 4.0


def letters(text: str) -> float:
    """The length of a text in letters, as long as it may take to be read."""
    return sum(map(_weight, text))


def _weight(character: str) -> float:
    if character.isdigit():
        return _DIGIT
    if character in _STOPS:
        return _STOP
    return _SYLLABLE if character >= _FIRST_SYLLABLE else 1.0


def longest_s(count: float, speed: float = 1.0) -> float:
    """Seconds that so many letters take at the most, spoken `speed` times as fast as usual."""
    return _BEYOND_S + count / (_LETTERS_A_SECOND * speed)


# Which draw a frame is of: noise is keyed by it, and the log says it.


REDRAW: Final = "redraw"
"""The number of the draw that a frame is of, and LEFT more where what was before it was left."""
LEFT: Final = 4
FLAG: Final = Field((), "u1", 2 * LEFT)
# The field of a slot's state, and of raw frames, that noise is keyed by.
_SEED: Final = "seed"
_OTHER: Final = 0x9E3779B97F


def other_seed(seed: int, redraw: int) -> int:
    """What a redraw draws with; the seed itself for none."""
    return seed ^ (redraw * _OTHER)


def seeded(write: SlotWriter, redraw: int) -> SlotWriter:
    """Writes a slot's state, for a draw of this number."""

    def reseeded(name: str, value: Any, at: int = 0) -> None:
        write(name, other_seed(value, redraw) if name == _SEED else value, at)

    return reseeded if redraw else write


def redraws(arrays: Arrays) -> Array:
    """[frames] u1; zeros where the log's writer knew of none. Raises MalformedMessage."""
    if REDRAW not in arrays:
        return FLAG.zeros(rows(arrays))
    return FLAG.checked(REDRAW, arrays[REDRAW])


def logged(raw: Arrays, flags: Array) -> Arrays:
    """With the draw that each frame is of, and the seed that it was drawn with."""
    if _SEED not in raw or not flags.any():
        return {**raw, REDRAW: flags}
    draws = (flags & (LEFT - 1)).tolist()
    seeds = [other_seed(*one) for one in zip(raw[_SEED].tolist(), draws, strict=True)]
    return {**raw, _SEED: np.array(seeds), REDRAW: flags}
