"""One request of the vesper family on the host: its utterances, and how far each is spoken."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from ttscommon.wire.fields import Array, Arrays, concatenate, cut, rows
from ttscommon.wire.messages import SpeechRequest, WordTime
from ttscommon.wire.pieces import Pause, Piece
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.guard import LEFT, redraws
from ttsfamilies.base.talker.streams import Plan, Progress, SlotWriter, Taken, TalkerStream
from ttsfamilies.base.text.frontend import Utterance, Word
from ttsfamilies.base.text.reader import Phonetise, Reader

UNITS_PER_FRAME: Final = 2
PARAGRAPH_S: Final = 0.25
"""Between paragraphs, beside the .4 s that an utterance ends with."""
# An utterance that lasts longer has lost its text: at the voice's own pace, so long a token.
_LONGEST_TOKEN_S, _BEYOND_S = 0.2, 3.0


@dataclass(frozen=True)
class VesperSampling:
    """How a voice is sampled unless a request says otherwise.

    longest_units: a token that has lasted so long (25 ms each) is left.
    """

    move_temperature: float = 0.5
    temperature: float = 0.5
    energy_temperature: float = 0.2
    top_k: int = 50
    longest_units: int = 60

    def __post_init__(self) -> None:
        if self.longest_units < UNITS_PER_FRAME:
            raise ValueError("a token lasts at least a frame")


@dataclass(frozen=True, eq=False)
class Conditioning:
    """Tokens of an utterance as the net has read them, at the request's pace.

    begin: [dim] and at: [tokens, dim] float32, what the first position and the frames at each
    token are told. text: gives [tokens, text_dim] float32, what the text encoder makes of each
    token; no step waits for it, only a chunk that is rendered.
    """

    begin: Array
    at: Array
    text: Callable[[], Array]
    words: tuple[Word, ...] = ()

    def __len__(self) -> int:
        return len(self.at)


class Unit(NamedTuple):
    """An utterance, or as many frames of silence."""

    conditioning: Conditioning
    silent_frames: int = 0


Tell = Callable[[Utterance | None, float], Iterator[Conditioning]]
"""What the net is told of an utterance, or of silence, at a pace; a long one in several parts."""


class VesperPrepared(Prepared):
    """A request whose voice is known, and its text frontend."""

    def __init__(
        self, request: SpeechRequest, pace: float, phones: Phonetise, tell: Tell, rate_hz: float
    ) -> None:
        self.request = request
        self.pace, self._tell, self._rate = pace, tell, rate_hz
        self._reader = Reader(phones, PARAGRAPH_S)

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Unit]:
        """Utterance by utterance; see Prepared."""
        for found in self._reader.read(pieces, final=final):
            if isinstance(found, Pause):
                (silence,) = self._tell(None, self.pace)
                yield Unit(silence, max(1, round(found.seconds * self._rate)))
            else:
                yield from map(Unit, self._tell(found, self.pace))


@dataclass
class SpokenUnits:
    """An utterance being spoken: what the pointer has done so far, frame by frame.

    pointers, held: of every frame and of the one to come. starts: the unit in which each token
    began, of the tokens reached so far.
    """

    unit: Unit
    codes: list[int] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)
    pointers: list[int] = field(default_factory=lambda: [0])
    held: list[int] = field(default_factory=lambda: [0])
    starts: list[int] = field(default_factory=lambda: [0])
    next_word: int = 0

    @property
    def tokens(self) -> int:
        return len(self.unit.conditioning)

    @cached_property
    def slowest(self) -> float:
        """The rate of its slowest word."""
        return min((word.rate for word in self.unit.conditioning.words), default=1.0)

    @property
    def word(self) -> str:
        """The last one that was begun."""
        pointer = self.pointers[-1]
        words = self.unit.conditioning.words
        return next((w.text for w in reversed(words) if w.start <= pointer and w.text), "")

    @property
    def end(self) -> int:
        """Positions up to and including the frame to come; one comes before all frames."""
        return len(self.codes) + 2

    @property
    def over(self) -> bool:
        return self.pointers[-1] >= self.tokens

    def move(self, codes: Sequence[int], moves: Sequence[int]) -> list[tuple[int, int]]:
        """Take the frames that were chosen; returns the tokens of the two units of each."""
        pointer, held, last = self.pointers[-1], self.held[-1], self.tokens - 1
        unit = len(self.codes) * UNITS_PER_FRAME
        units = []
        for move in moves:
            if pointer > last:
                raise AssertionError("a frame comes behind the utterance's last one")
            first, second = move & 1, move >> 1
            if first:
                self.starts.append(unit + 1)
            if second:
                self.starts.append(unit + 2)
            units.append((pointer, min(pointer + first, last)))
            pointer += first + second
            held = 0 if second else 1 if first else held + UNITS_PER_FRAME
            self.pointers.append(pointer)
            self.held.append(held)
            unit += UNITS_PER_FRAME
        self.codes += codes
        self.moves += moves
        return units

    def words(self) -> Iterator[tuple[Word, int, int]]:
        """Words that have ended since the last call: each, its first unit, and the one behind."""
        words = self.unit.conditioning.words
        while self.next_word < len(words) and words[self.next_word].end < len(self.starts):
            word = words[self.next_word]
            if word.text:  # phones may come without a word
                yield word, self.starts[word.start], self.starts[word.end]
            self.next_word += 1

    def inputs(self, start: int, end: int, bos: int) -> dict[str, Array]:
        """What the positions start .. end are told."""
        first = max(start, 1)
        pointers = np.array(self.pointers[first - 1 : end - 1], np.int64)
        told, held = (
            self.unit.conditioning.at[pointers],
            np.array(self.held[first - 1 : end - 1], np.int64),
        )
        code = np.array([bos, *self.codes][first - 1 : end - 1], np.int64)
        if start == 0:
            told = np.concatenate([self.unit.conditioning.begin[None], told])
            held, code = np.append(0, held), np.append(bos, code)
        begins = np.arange(start, end) == 0
        return {"told": told, "held": held, "code": code, "begins": begins.astype(np.int64)}


class _Pending(NamedTuple):
    """Frames of a step whose energy and text are still to be chosen.

    frames: what the spec calls raw, with `tokens` [frames, 2], of the two units of each, for text.
    """

    frames: Arrays
    unit: Unit

    @property
    def begin(self) -> int:
        """The number of the first."""
        return int(self.frames["frame"][0])

    @property
    def raw(self) -> Arrays:
        """With their text, which may have to be waited for."""
        known = dict(self.frames)
        tokens = known.pop("tokens")
        return {**known, "text": self.unit.conditioning.text()[tokens]}

    def cut(self, start: int, end: int) -> _Pending:
        """Frames start .. end of these."""
        return self._replace(frames=cut(self.frames, start, end))


class VesperStream(TalkerStream):
    """One request: utterances to come, the one being spoken, and frames not yet taken."""

    def __init__(
        self,
        prepared: VesperPrepared,
        defaults: VesperSampling,
        bos: int,
        rate_hz: float,
        *,
        steps_begin: bool = False,
    ) -> None:
        """steps_begin: a step may begin an utterance; see Plan."""
        self._steps_begin = steps_begin
        self._request, self._pace = prepared.request, prepared.pace
        self._defaults, self._bos = defaults, bos
        self._unit_s = 1 / rate_hz / UNITS_PER_FRAME
        self._progress: SpokenUnits | None = None
        self._cached = False
        self._staged = False
        self._waiting: deque[Unit] = deque()
        self._final = False
        self._frame = 0
        self._restoring: deque[tuple[int, int]] = deque()
        self._left: set[int] = set()  # frames that what came before was left at
        self._pending: deque[_Pending] = deque()
        self._words: deque[tuple[int, WordTime]] = deque()

    @property
    def frames(self) -> int:
        return self._frame + len(self._restoring)

    @property
    def done(self) -> bool:
        return self._final and self._progress is None and not self._waiting

    def progress(self) -> Progress:
        progress = self._progress
        if progress is None:
            return Progress(self._frame, math.inf)
        begun = self._frame - len(progress.codes)
        if progress.unit.silent_frames:
            return Progress(begun, math.inf, word=progress.word)
        longest = progress.tokens * _LONGEST_TOKEN_S / (self._pace * progress.slowest)
        told = begun, _BEYOND_S + longest
        return Progress(*told, reached=progress.pointers, word=progress.word)

    def leave(self) -> bool:
        self._progress = None
        self._cached = self._staged = False
        self._settle()
        return True

    def feed(self, units: Sequence[Unit], *, final: bool) -> None:
        self._waiting.extend(units)
        self._final = self._final or final
        self._settle()

    def restore(self, arrays: Arrays) -> None:
        codes = arrays["codes"][:, 0].tolist()
        self._left = set(np.flatnonzero(redraws(arrays) & LEFT).tolist())
        self._restoring.extend(zip(codes, arrays["move"].tolist(), strict=True))
        self._settle()

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        del dry  # frames never wait for text that may be made up for
        progress = self._progress
        if progress is None or self._restoring:
            return None
        if self._cached or ahead:
            return Plan(progress.end + ahead - 1, 1, decode=True)
        return Plan(0, progress.end, begins=self._steps_begin and not progress.codes)

    def inputs(self, plan: Plan, branch: int = 0) -> Arrays:
        del branch
        assert self._progress is not None
        return self._progress.inputs(plan.start, plan.end, self._bos)

    def stage(self, write: SlotWriter) -> None:
        progress = self._progress
        if self._staged or progress is None:
            return
        self._staged = True
        write("told", progress.unit.conditioning.at)
        if self._steps_begin and not progress.codes:
            write("begin", progress.unit.conditioning.begin)
            write("hidden", np.zeros_like(progress.unit.conditioning.begin))
        write("tokens", progress.tokens)
        write("code", progress.codes[-1] if progress.codes else self._bos)
        write("pointer", progress.pointers[-1])
        write("held", progress.held[-1])
        write("frame", self._frame)
        write("seed", self._request.seed)
        sampling, defaults = self._request.sampling, self._defaults
        silent_units = max(0, progress.unit.silent_frames - 1) * UNITS_PER_FRAME
        write("least", silent_units)
        write("longest", silent_units if progress.unit.silent_frames else defaults.longest_units)
        own = sampling.temperature
        write("temperature", defaults.temperature if own is None else own)
        write("move_temperature", defaults.move_temperature if own is None else own)
        write("top_k", defaults.top_k if sampling.top_k is None else sampling.top_k)

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        del cached  # always all of what was planned
        self._cached = True
        if count := len(codes := frames["code"]):
            assert self._progress is not None
            unit, begin = self._progress.unit, self._frame
            taken = {
                **cut(frames, 0, count),
                "tokens": np.array(self._move(codes.tolist(), frames["move"].tolist())),
                "silent": np.full(count, int(unit.silent_frames > 0)),
                "frame": begin + np.arange(count),
                "seed": np.full(count, self._request.seed),
            }
            self._pending.append(_Pending(taken, unit))
        if ended != (self._progress is None):
            raise AssertionError("device and host disagree on where the utterance ends")
        self._settle()

    def take(self, count: int) -> Taken:
        raw = concatenate([some.raw for some in self._taken(count)])
        words = []
        while self._words and self._words[0][0] <= raw["frame"][-1]:
            words.append(self._words.popleft()[1])
        return Taken(raw, tuple(words))

    def _taken(self, count: int) -> list[_Pending]:
        """The oldest `count` of what is pending."""
        taken = []
        while count:
            some = self._pending.popleft()
            if (size := rows(some.frames)) > count:
                self._pending.appendleft(some.cut(count, size))
                some = some.cut(0, count)
            taken.append(some)
            count -= rows(some.frames)
        return taken

    def rewind(self, frames: int) -> None:
        """No further than the utterance that is spoken."""
        if (progress := self._progress) is not None and frames < self._frame:
            kept = len(progress.codes) - (self._frame - frames)
            pending = (some for some in self._pending if some.begin < frames)
            self._pending = deque(some.cut(0, frames - some.begin) for some in pending)
            words = deque(one for one in self._words if one[0] < frames)
            self._progress, self._frame = SpokenUnits(progress.unit), frames - kept
            self._move(progress.codes[:kept], progress.moves[:kept])
            self._words = words
        self._cached = self._staged = False

    def _settle(self) -> None:
        """Begin the next utterance if one is due, and replay what was restored of it."""
        while True:
            if self._frame in self._left:
                self._left.remove(self._frame)
                self._progress = None
            if self._progress is None and self._waiting:
                self._progress = SpokenUnits(self._waiting.popleft())
                self._cached = self._staged = False
            if self._progress is None or not self._restoring:
                return
            code, move = self._restoring.popleft()
            self._move([code], [move])
            self._words.clear()  # they were sent with the chunk that was restored

    def _move(self, codes: Sequence[int], moves: Sequence[int]) -> list[tuple[int, int]]:
        """Take frames of the utterance; returns the tokens of the two units of each."""
        progress = self._progress
        assert progress is not None
        begun = self._frame - len(progress.codes)
        tokens = progress.move(codes, moves)
        for word, start, end in progress.words():
            first, last = begun * UNITS_PER_FRAME + start, begun * UNITS_PER_FRAME + end
            times = first * self._unit_s, last * self._unit_s
            told = WordTime(word.text, *times, word.spoken, word.first, word.last)
            self._words.append((begun + (end - 1) // UNITS_PER_FRAME, told))
        self._frame += len(codes)
        if progress.over:
            self._progress = None
        return tokens
