"""One request of the cantor family on the host: its utterances, and how far each is spoken."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from talker.models.base import Plan, Prepared, SlotWriter, TalkerStream
from talker.models.cantor_net import CONTEXT
from talker.text.frontend import Utterance
from talker.text.reader import Phonetise, Reader
from talker.text.symbols import FLAG_PAUSE, PAUSE, Phone
from ttscommon.fields import Array, Arrays
from ttscommon.messages import SpeechRequest, WordTime
from ttscommon.pieces import Pause, Piece

SPEAKER, PHONE, FRAME = range(3)
_SILENCE: Final = Utterance((Phone(PAUSE, -1, False),), ())


@dataclass(frozen=True)
class SamplingDefaults:
    """How a voice is sampled unless a request says otherwise."""

    temperature: float = 0.7
    top_k: int = 50
    advance_temperature: float = 0.7
    residual_temperature: float = 0.7
    max_frames_per_phone: int = 25

    def __post_init__(self) -> None:
        if self.max_frames_per_phone < 1:
            raise ValueError("a phone lasts at least a frame")


class Unit(NamedTuple):
    """An utterance, or as many frames of silence."""

    utterance: Utterance
    silent_frames: int = 0


class CantorPrepared(Prepared):
    """A request whose voice is known, and its text frontend."""

    def __init__(
        self, request: SpeechRequest, speaker: int, phones: Phonetise, frame_rate_hz: float
    ) -> None:
        self.request = request
        self.speaker = speaker
        self._rate = frame_rate_hz
        self._reader = Reader(phones)

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Unit]:
        """Utterance by utterance; see Prepared."""
        for found in self._reader.read(pieces, final=final):
            if isinstance(found, Pause):
                yield Unit(_SILENCE, max(1, round(found.seconds * self._rate)))
            else:
                yield Unit(found)


@dataclass
class Progress:
    """An utterance being spoken: what the pointer has done so far, frame by frame."""

    unit: Unit
    symbols: Array = field(init=False)
    flags: Array = field(init=False)
    codes: list[int] = field(default_factory=list)
    pointers: list[int] = field(default_factory=lambda: [0])
    held: list[int] = field(default_factory=lambda: [0])
    next_word: int = 0
    word_frame: int = 0

    def __post_init__(self) -> None:
        phones = self.unit.utterance.phones
        pad = CONTEXT - 2
        self.symbols = np.array([0, *(p.symbol_id for p in phones), *[0] * pad])
        self.flags = np.array([FLAG_PAUSE, *(p.flag for p in phones), *[FLAG_PAUSE] * pad])

    @property
    def phones(self) -> int:
        return len(self.unit.utterance.phones)

    @property
    def prompt(self) -> int:
        """Positions before the first frame: the speaker and the phones."""
        return self.phones + 1

    @property
    def end(self) -> int:
        """Positions up to and including the frame to come."""
        return self.prompt + len(self.codes) + 1

    @property
    def over(self) -> bool:
        return self.pointers[-1] >= self.phones

    def move(self, code: int, advance: int) -> None:
        """Take the frame that was chosen."""
        pointer = min(self.pointers[-1] + advance, self.phones)
        self.codes.append(code)
        self.held.append(0 if advance else self.held[-1] + 1)
        self.pointers.append(pointer)

    def inputs(self, start: int, end: int, speaker: int, bos: int) -> dict[str, Array]:
        """What the positions start .. end are told, of prompt and frames alike."""
        count = end - start
        told = {
            "kind": np.full(count, FRAME),
            "symbols": np.zeros((count, CONTEXT), np.int64),
            "flags": np.zeros((count, CONTEXT), np.int64),
            "code": np.zeros(count, np.int64),
            "held": np.zeros(count, np.int64),
            "speaker": np.full(count, speaker),
        }
        phones = min(max(self.prompt - start, 0), count)
        if phones:
            told["kind"][:phones] = PHONE
            told["symbols"][:phones, 0] = self.symbols[start : start + phones]
            told["flags"][:phones, 0] = self.flags[start : start + phones]
            if start == 0:
                told["kind"][0] = SPEAKER
        if phones < count:
            first, last = start + phones - self.prompt, end - self.prompt
            around = np.array(self.pointers[first:last])[:, None] + np.arange(CONTEXT)
            told["symbols"][phones:] = self.symbols[around]
            told["flags"][phones:] = self.flags[around]
            told["code"][phones:] = ([bos, *self.codes])[first:last]
            told["held"][phones:] = self.held[first:last]
        return told


class _Pending(NamedTuple):
    """A frame whose residual codebooks are still to be chosen."""

    code: int
    advance: int
    hidden: Array
    frame: int


class CantorStream(TalkerStream):
    """One request: utterances to come, the one being spoken, and frames not yet taken."""

    def __init__(
        self, prepared: CantorPrepared, defaults: SamplingDefaults, bos: int, frame_rate_hz: float
    ) -> None:
        self._request = prepared.request
        self._speaker = prepared.speaker
        self._defaults = defaults
        self._bos = bos
        self._rate = frame_rate_hz
        self._progress: Progress | None = None
        self._cached = False
        self._staged = False
        self._waiting: deque[Unit] = deque()
        self._final = False
        self._frame = 0
        self._restoring: deque[tuple[int, int]] = deque()
        self._pending: deque[_Pending] = deque()
        self._words: deque[tuple[int, WordTime]] = deque()

    @property
    def frames(self) -> int:
        return self._frame + len(self._restoring)

    @property
    def pending(self) -> int:
        return len(self._pending)

    @property
    def done(self) -> bool:
        return self._final and self._progress is None and not self._waiting

    def feed(self, units: Sequence[Unit], *, final: bool) -> None:
        self._waiting.extend(units)
        self._final = self._final or final
        self._settle()

    def restore(self, arrays: Arrays) -> None:
        codes = arrays["codes"][:, 0].tolist()
        self._restoring.extend(zip(codes, arrays["advance"].tolist(), strict=True))
        self._settle()

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        del dry  # frames never wait for text that may be made up for
        progress = self._progress
        if progress is None or self._restoring:
            return None
        if self._cached or ahead:
            return Plan(progress.end + ahead - 1, 1, decode=True)
        return Plan(0, progress.end)

    def inputs(self, plan: Plan) -> Arrays:
        assert self._progress is not None
        return self._progress.inputs(plan.start, plan.end, self._speaker, self._bos)

    def stage(self, write: SlotWriter) -> None:
        progress = self._progress
        if self._staged or progress is None:
            return
        self._staged = True
        write("symbols", progress.symbols)
        write("flags", progress.flags)
        write("phones", progress.phones)
        write("speaker", self._speaker)
        write("code", progress.codes[-1] if progress.codes else self._bos)
        write("pointer", progress.pointers[-1])
        write("held", progress.held[-1])
        write("frame", self._frame)
        write("seed", self._request.seed)
        silent = progress.unit.silent_frames
        write("least", silent)
        write("most", silent or self._defaults.max_frames_per_phone)
        sampling = self._request.sampling
        own, defaults = sampling.temperature, self._defaults
        write("temperature", defaults.temperature if own is None else own)
        write("advance_temperature", defaults.advance_temperature if own is None else own)
        write("top_k", defaults.top_k if sampling.top_k is None else sampling.top_k)

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        del cached  # always all of what was planned
        self._cached = True
        codes, advances = frames["code"].tolist(), frames["advance"].tolist()
        for row, (code, advance) in enumerate(zip(codes, advances, strict=True)):
            self._pending.append(_Pending(code, advance, frames["hidden"][row], self._frame))
            self._move(code, advance)
        if ended != (self._progress is None):
            raise AssertionError("device and host disagree on where the utterance ends")
        self._settle()

    def take(self, count: int) -> tuple[Arrays, tuple[WordTime, ...]]:
        taken = [self._pending.popleft() for _ in range(count)]
        words = []
        while self._words and self._words[0][0] <= taken[-1].frame:
            words.append(self._words.popleft()[1])
        raw = {
            "code": np.array([one.code for one in taken]),
            "advance": np.array([one.advance for one in taken]),
            "hidden": np.stack([one.hidden for one in taken]),
            "frame": np.array([one.frame for one in taken]),
            "seed": np.full(count, self._request.seed),
        }
        return raw, tuple(words)

    def evict(self) -> None:
        self._cached = self._staged = False

    def _settle(self) -> None:
        """Begin the next utterance if one is due, and replay what was restored of it."""
        while True:
            if self._progress is None and self._waiting:
                self._progress = Progress(self._waiting.popleft())
                self.evict()
            if self._progress is None or not self._restoring:
                return
            self._move(*self._restoring.popleft())
            self._words.clear()  # they were sent with the chunk that was restored

    def _move(self, code: int, advance: int) -> None:
        progress = self._progress
        assert progress is not None
        progress.move(code, advance)
        self._time_words(progress)
        self._frame += 1
        if progress.over:
            self._progress = None

    def _time_words(self, progress: Progress) -> None:
        """Words begin and end where the pointer enters and leaves them, after this frame."""
        pointer, after = progress.pointers[-1], self._frame + 1
        words = progress.unit.utterance.words
        while progress.next_word < len(words):
            word = words[progress.next_word]
            if pointer >= word.start and not progress.word_frame:
                progress.word_frame = after
            if pointer < word.end:
                return
            if word.text:  # phones may come without a word
                timed = WordTime(word.text, progress.word_frame / self._rate, after / self._rate)
                self._words.append((self._frame, timed))
            progress.next_word += 1
            progress.word_frame = after if pointer >= word.end else 0
