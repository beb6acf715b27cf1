"""One request of Kyutai TTS on the host: which step tells which piece of the text.

A step's input are the codes and the text of the step before it. Sound is behind the text, so that
the first steps complete no frame; then each completes one. The log has of each frame, beside its
codes, the codes of later frames that its step drew already, and in which of the last steps an entry
began: from these a successor knows the inputs of all steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field
from ttscommon.wire.messages import WordTime
from ttsfamilies.base.talker.streams import Plan, SlotWriter, Taken, TalkerStream
from ttsfamilies.kyutai_tts.config import FRAME_RATE_HZ, NEW_WORD, KyutaiConfig
from ttsfamilies.kyutai_tts.counters import FINAL_STEPS, Counters, Entry, EntrySpan, moved, text_id
from ttsfamilies.kyutai_tts.request import KyutaiPrepared

# Instead of a code: it is embedded as zeros.
NO_CODE: Final = -1
_NO_SPAN: Final = EntrySpan(0, 0, 0, 0)


def replay(c: KyutaiConfig) -> dict[str, Field]:
    """What is logged beside a frame's codes.

    coming: codes of later frames, see `coming_places`. asked: bit n is set where, n steps before
    the step that completed the frame, an entry began, or was due behind the last one.
    """
    return {"asked": Field((), "i4"), "coming": Field((len(coming_places(c)),), "i2", c.card)}


def coming_places(c: KyutaiConfig) -> list[tuple[int, int]]:
    """Of each code in `coming`: the steps from its draw to the frame's last, and its codebook."""
    left = [
        (book, c.delay_pattern.most - delay) for book, delay in enumerate(c.delay_pattern.delays)
    ]
    return [(age, book) for book, count in left for age in reversed(range(count))]


class _Replayed(NamedTuple):
    """Behind the steps that are done: texts [steps] and rows [steps, codebooks] that they gave."""

    counters: Counters
    texts: list[int]
    rows: Array


class KyutaiStream(TalkerStream):
    """See TalkerStream."""

    def __init__(self, prepared: KyutaiPrepared, config: KyutaiConfig) -> None:
        self._prepared, self._config = prepared, config
        self._entries: list[Entry] = []
        self._spans: list[EntrySpan] = []  # of the entries that may begin
        self._pieces: list[int] = []
        self._ends: list[int] = []  # of each word's pieces
        self._words_before = 0  # `_spans` ends
        self._final = False
        self._codes: list[Array] = []
        self._coming: list[Array] = []
        self._last: Sequence[int] = ()  # `coming` of the last step
        self._asked: list[int] = []
        self._taken = 0
        self._steps = 0  # done, whose inputs can be rebuilt
        self._seen = 0  # of which it is known whether an entry began
        self._began: list[int] = []  # the step of each entry, and that in which the text was over
        self._next_word = 0
        self._cached = self._staged = self._ended = False
        self._starved = -1  # so many entries were known to the step that waits
        self._tried: deque[int] = deque()  # and to launches in flight
        self._fed = (0, 0)  # entries and pieces that are in the slot
        self._numbers = dict[str, int]()  # and what else of them is

    @property
    def frames(self) -> int:
        return len(self._codes)

    @property
    def done(self) -> bool:
        over = self._final and len(self._began) > len(self._entries)
        left = FINAL_STEPS - self._config.delay_pattern.most
        return self._ended or (over and self.frames >= self._began[-1] + left)

    @property
    def _known(self) -> int:
        """Entries that may begin, and the end of the text."""
        return len(self._spans) + self._final

    def feed(self, units: Sequence[Entry], *, final: bool) -> None:
        self._final = self._final or final
        for entry in units:
            self._entries.append(entry)
            self._pieces += entry.ids
            if entry.ids:
                self._ends.append(len(self._pieces))
        self._lay_out()

    def _lay_out(self) -> None:
        """Entries may begin as far as it is known what is told ahead of them."""
        ahead = self._config.tts_config.second_stream_ahead
        for entry in self._entries[len(self._spans) :]:
            last = self._words_before + (ahead if entry.ids else 0)
            if last >= len(self._ends) and not self._final and entry.ids:
                return
            begin = self._ends[self._words_before - 1] if self._words_before else 0
            end = self._ends[min(last, len(self._ends) - 1)] if self._ends else 0
            span = EntrySpan(begin, begin + len(entry.ids), entry.padding, end)
            self._spans.append(span)
            self._words_before += bool(entry.ids)

    def restore(self, arrays: Arrays) -> None:
        self._keep(arrays, self._config.silent_steps)
        self._taken = self.frames

    def rewind(self, frames: int) -> None:
        if frames < self.frames:
            made = self._made(0, frames)
            self._codes, self._coming, self._asked, self._last = [], [], [], ()
            self._steps = self._seen = 0
            self._began, self._ended, self._starved = [], False, -1
            self._keep(made, self._config.silent_steps)
        self._cached = self._staged = False

    def _keep(self, made: Arrays, step: int) -> None:
        """What the steps from `step` on have made, of which those that are silent make no frame."""
        for mask in made["asked"].tolist():
            unseen = range(self._seen, step + 1)
            self._began += [n for n in unseen if mask >> (step - n) & 1]
            step += 1
            self._steps = self._seen = step
        if len(made["asked"]):
            self._last = made["coming"][-1]
        if step > self._config.silent_steps:
            self._codes.extend(made["codes"])
            self._coming.extend(made["coming"])
            self._asked.extend(made["asked"].tolist())

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        del dry  # without the next word nothing can be made up for
        if not ahead:
            self._tried.clear()
        if self.done or not self._spans or len(self._began) > self._known:
            return None
        if self._starved >= 0 and (ahead or self._known <= self._starved):
            return None
        step = self._steps + ahead
        return Plan(step, 1, decode=True) if self._cached or ahead else Plan(0, step + 1)

    def inputs(self, plan: Plan, branch: int = 0) -> Arrays:
        c, (_, texts, made) = self._config, self._replayed()
        positions = np.arange(plan.start, plan.end)
        codes = np.concatenate([np.full((1, c.n_q), c.card), made])[positions]
        begins = positions[:, None] <= np.array(c.delay_pattern.delays)
        count, drawing = len(positions), self._prepared.drawing
        return {
            "text": np.array([c.text_card, *texts], np.int64)[positions],
            "codes": np.where(begins, c.card, codes).astype(np.int64),
            "voice": np.full(count, self._prepared.voice, np.int64),
            "guided": np.full(count, drawing.guided, np.int64),
        }

    def _replayed(self) -> _Replayed:
        began, texts = set(self._began), list[int]()
        counters = Counters.initial(self._prepared.drawing.initial)
        for step in range(self._steps):
            entry = counters.entry
            span = self._spans[entry] if entry < len(self._spans) else _NO_SPAN
            unknown = self._pieces[counters.at : counters.at + 1] == [NEW_WORD]
            move = moved(
                *(counters, int(step in began), int(unknown), span),
                *(len(self._spans), int(self._final), self._base),
                self._prepared.drawing.most_pads,
            )
            main = self._pieces[move.main] if move.piece else 0
            second = self._pieces[move.second] if move.next_piece else 0
            texts.append(text_id(move, main, second, self._config.text_card + 1))
            counters = move.after
        return _Replayed(counters, texts, self._rows())

    @property
    def _base(self) -> int:
        """Where the pieces begin that are told ahead."""
        ahead = self._config.tts_config.second_stream_ahead
        return self._ends[ahead - 1] if len(self._ends) >= ahead else len(self._pieces)

    def _rows(self) -> Array:
        """[steps, codebooks]: what each step that is done has drawn."""
        c = self._config
        found = np.full((self._steps, c.n_q), NO_CODE, np.int64)
        if self._codes:
            frames = np.stack(self._codes).astype(np.int64)
            found[c.lead :] = c.delay_pattern.rows(frames, NO_CODE, NO_CODE)
        for code, (age, book) in zip(self._last, coming_places(c), strict=False):
            step = self._steps - 1 - age
            if step >= c.lead + c.delay_pattern.delays[book]:
                found[step, book] = code
        return found

    def stage(self, write: SlotWriter) -> None:
        self._tried.append(self._known)
        self._starved = -1
        if not self._staged:
            self._stage_all(write)
            self._staged, self._fed, self._numbers = True, (0, 0), {}
        entries, pieces = self._fed
        if new := self._spans[entries:]:
            for name, column in zip(EntrySpan._fields, zip(*new, strict=True), strict=True):
                write(name, np.array(column, np.int32), entries)
        if self._pieces[pieces:]:
            write("pieces", np.array(self._pieces[pieces:], np.int32), pieces)
        self._fed = len(self._spans), len(self._pieces)
        numbers = {"known": len(self._spans), "complete": int(self._final), "base": self._base}
        for name, value in numbers.items():
            if self._numbers.get(name) != value:
                write(name, value)
        self._numbers = numbers

    def _stage_all(self, write: SlotWriter) -> None:
        counters, texts, made = self._replayed()
        recent = np.full((self._config.delay_pattern.most + 1, self._config.n_q), NO_CODE, np.int64)
        last = made[::-1][: len(recent)]
        recent[: len(last)] = last
        for name, value in counters._asdict().items():
            write(name, value)
        write("text", texts[-1] if texts else self._config.text_card)
        write("recent", recent)
        ago = (self._steps - 1 - step for step in self._began)
        write("asked", sum(1 << n for n in ago if n <= self._config.silent_steps))
        write("ended", 0)
        write("seed", self._prepared.request.seed)
        write("voice", self._prepared.voice)
        for name in DRAWN:
            write(name, getattr(self._prepared.drawing, name))

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        tried = self._tried.popleft() if self._tried else self._known
        self._cached = True
        # A launch behind one that waits knew of later text, but did not try with it.
        waits = tried if self._starved < 0 else min(tried, self._starved)
        self._starved = waits if cached <= self._steps else -1
        self._keep(frames, self._steps)
        self._ended = self._ended or ended

    def take(self, count: int) -> Taken:
        first, self._taken = self._taken, self._taken + count
        return Taken(self._made(first, self._taken), tuple(self._ended_words(first)))

    def _made(self, first: int, last: int) -> Arrays:
        """Frames as the log has them."""
        return {
            "codes": np.stack(self._codes[first:last]).astype(np.int16),
            "asked": np.array(self._asked[first:last], np.int32),
            "coming": np.stack(self._coming[first:last]).astype(np.int16),
        }

    def _ended_words(self, first: int) -> list[WordTime]:
        """Words that end in the frames from `first` on that were taken."""
        found = []
        while self._next_word + 1 < len(self._began) and self._next_word < len(self._entries):
            begin, end = self._began[self._next_word : self._next_word + 2]
            if end > self._taken:
                break
            entry = self._entries[self._next_word]
            self._next_word += 1
            if entry.text and end > first:
                times = begin / FRAME_RATE_HZ, end / FRAME_RATE_HZ
                found.append(WordTime(entry.text, *times, "", entry.first, entry.last))
        return found


DRAWN: Final = (
    *("temperature", "top_k", "subtalker_temperature", "subtalker_top_k"),
    *("bonus", "most_pads", "guided"),
)
