"""The state machine between the text and the sound: it says when the next word enters.

The model says in each step whether a word begins. Then the pieces of the next entry follow, one a
step, while a second stream tells the pieces of a word further ahead. As in the reference
(`StateMachine` of the package moshi), with one difference: where the model asks for an entry that
is not here yet, the step waits.

All of it is arithmetic over numbers: over ints on the host, which goes through the steps that a
log tells of, and over tensors with a number a row on a device.

As in the reference (`script_to_entries` of the package moshi) a word is what stands between white
space, marks included; each is divided into pieces by itself, so that a word is known as soon as
the next one, a break or the end of the text is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from ttscommon.wire.pieces import Boundary, Pause, Phones, Piece
from ttscommon.wire.tensors import FloatRows
from ttsfamilies.kyutai_tts.config import FRAME_RATE_HZ, MAIN, NEW_WORD, PAD

# What the model was not trained with.
_READ: Final = {"\u2019": "'", ":": " ", "(": "", ")": ""}


class Entry(NamedTuple):
    """ids: pieces of a word; a break has none. padding: steps after its first in which no other
    entry begins. first, last: see WordTime.
    """

    ids: tuple[int, ...]
    text: str = ""
    padding: int = 0
    first: int = -1
    last: int = -1


class _Letter(NamedTuple):
    """A character as the model reads it, and its place in the client's text."""

    read: str
    written: str
    source: int


class Script:
    """Divides a text that grows. encode: the pieces of a word."""

    def __init__(self, encode: Callable[[str], Sequence[int]], padding: int) -> None:
        """padding: see Entry; 0 for none beyond the word's own pieces."""
        self._encode, self._padding = encode, padding
        self._word: list[_Letter] = []
        self._begun = False

    def feed(self, piece: Piece) -> Iterator[Entry]:
        """Entries that are complete with this piece."""
        if isinstance(piece, Boundary | Pause | FloatRows):
            yield from self.finish()
            if isinstance(piece, Pause):
                yield Entry((), padding=round(piece.seconds * FRAME_RATE_HZ))
            return
        read = piece.read if isinstance(piece, Phones) else piece.text
        known = piece.source >= 0 and not isinstance(piece, Phones)
        for at, letter in enumerate(read):
            yield from self._next(
                _Letter(_READ.get(letter, letter), letter, piece.source + at if known else -1)
            )

    def _next(self, letter: _Letter) -> Iterator[Entry]:
        if letter.read.isspace():
            yield from self.finish()
        else:
            self._word.append(letter)

    def finish(self) -> Iterator[Entry]:
        """The word at the end, if there is one."""
        word, self._word = self._word, []
        read = "".join(letter.read for letter in word)
        if not read:
            return
        ids = tuple(self._encode(read))
        if not self._begun:
            ids, self._begun = (MAIN, *ids), True
        padding = max(0, self._padding + len(ids) - 1) if self._padding else 0
        first, last = word[0].source, word[-1].source
        written = "".join(letter.written for letter in word)
        told = (first, last + 1) if min(first, last) >= 0 else (-1, -1)
        yield Entry(ids, written, padding, *told)


Number: TypeAlias = Any
"""An int, or [rows] int64."""

# Steps that follow the one in which the text was over, besides those that sound is behind by.
FINAL_STEPS: Final = 4
NOT_OVER: Final = -1


class EntrySpan(NamedTuple):
    """An entry's pieces begin .. end of all pieces, none for a break; padding: see Entry.

    until: where the pieces end that are told ahead once it has begun.
    """

    begin: Number
    end: Number
    padding: Number
    until: Number


class Counters(NamedTuple):
    """step: the next. entry: the next one. at, stop: pieces of the word that are left. told:
    pieces that were told ahead, of those up to `ahead`. pads: how many may follow. forced: so many
    must. over: the step in which the text was over, or NOT_OVER.
    """

    step: Number
    entry: Number
    at: Number
    stop: Number
    told: Number
    ahead: Number
    pads: Number
    forced: Number
    over: Number

    @classmethod
    def initial(cls, padding: int) -> Counters:
        """Of a text of which nothing was told; padding: steps before its first word."""
        return cls(0, 0, 0, 0, 0, 0, padding, padding, NOT_OVER)


class Moved(NamedTuple):
    """asked: 1 where an entry began, or was due behind the last one, which ends the text. starved:
    1 where one is due that is not here. main, second: indices of pieces that are told; `piece` and
    `next_piece` are 1 where there are any. word: 1 where the second stream tells of a new word.
    """

    after: Counters
    asked: Number
    starved: Number
    main: Number
    piece: Number
    second: Number
    next_piece: Number
    word: Number


def moved(
    c: Counters, wants: Number, unknown: Number, span: EntrySpan, known: Number, complete: Number,
    base: Number, most_pads: Number,
) -> Moved:  # fmt: skip
    """A step. wants: 1 where the model asks for a word. unknown: 1 where the piece at `c.at` is
    the tokenizer's unknown one. span: of the entry `c.entry`. known: entries that are here with
    what is told ahead of them; complete: 1 if these are all. base: where pieces begin that are
    told ahead.
    """
    free = _is(c.at >= c.stop) * _is(c.forced <= 0)
    due = free * _is(wants + _is(c.pads <= 0) > 0)
    pops = due * _is(c.entry < known)
    first_beyond = due * (1 - pops) * _is(c.over < 0)
    ends, starved = first_beyond * complete, first_beyond * (1 - complete)
    word = pops * _is(span.end > span.begin)
    at, stop = _either(word, span.begin, c.at), _either(word, span.end, c.stop)
    ahead = _either(word, span.until, c.ahead)
    marked = _is(word + ends > 0)
    # The unknown piece has the id of a new word, and the reference takes it for one.
    skipped = (1 - marked) * _is(at < stop) * unknown
    at = at + skipped
    piece = _is(at < stop)
    next_piece = (1 - marked) * (1 - skipped) * _is(base + c.told < ahead)
    pads, forced = _either(word, most_pads, c.pads), _either(pops, span.padding, c.forced)
    after = Counters(
        c.step + 1,
        c.entry + pops,
        at + piece,
        stop,
        c.told + next_piece,
        ahead,
        pads - (1 - marked) * _is(pads > 0),
        forced - (1 - marked) * _is(forced > 0),
        _either(ends, c.step, c.over),
    )
    asked = pops + ends
    return Moved(after, asked, starved, at, piece, base + c.told, next_piece, marked + skipped)


def _is(condition: Any) -> Number:
    return condition * 1


def _either(flag: Number, one: Number, other: Number) -> Number:
    return other + flag * (one - other)


def text_id(moved: Moved, main: Number, second: Number, ids: int) -> Number:
    """What a step's text is told as. main, second: the pieces at the indices of `moved`."""
    first = _either(moved.piece, main, PAD)
    behind = moved.word * (NEW_WORD + 1) + moved.next_piece * (second + 1)
    return behind * ids + first
