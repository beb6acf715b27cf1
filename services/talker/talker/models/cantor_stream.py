"""One request of the cantor family: its text as utterances, and how far each has been spoken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from talker.models.base import Arrays, Plan, TalkerStream
from talker.models.cantor_net import CONTEXT
from talker.text.frontend import Utterance
from talker.text.segment import Segmenter
from talker.text.symbols import FLAG_PAUSE
from ttscommon.errors import NothingToSay
from ttscommon.messages import SpeechRequest, WordTime


@dataclass
class Progress:
    """An utterance being spoken: what the pointer has done so far, frame by frame."""

    utterance: Utterance
    first_frame: int
    symbols: np.ndarray[Any, np.dtype[np.int64]] = field(init=False)
    flags: np.ndarray[Any, np.dtype[np.int64]] = field(init=False)
    codes: list[int] = field(default_factory=list)
    pointers: list[int] = field(default_factory=lambda: [0])
    held: list[int] = field(default_factory=lambda: [0])
    next_word: int = 0
    word_frame: int = 0

    def __post_init__(self) -> None:
        phones = self.utterance.phones
        pad = CONTEXT - 2
        self.symbols = np.array([0, *(p.symbol_id for p in phones), *[0] * pad])
        self.flags = np.array([FLAG_PAUSE, *(p.flag for p in phones), *[FLAG_PAUSE] * pad])

    @property
    def phones(self) -> int:
        return len(self.utterance.phones)

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


@dataclass(frozen=True)
class Frame:
    """A frame whose residual codebooks are still to be chosen."""

    hidden: Tensor
    code: int
    advance: int
    index: int


class CantorStream(TalkerStream):
    """One request: utterances to come, the one being spoken, and frames not yet rendered."""

    def __init__(
        self,
        request: SpeechRequest,
        speaker: int,
        phones: Callable[[str], Utterance],
        frame_rate_hz: float,
    ) -> None:
        self.seed = request.seed
        self.sampling = request.sampling
        self.speaker = speaker
        self.progress: Progress | None = None
        self.cached = 0
        self._phones = phones
        self._rate = frame_rate_hz
        self._segmenter = Segmenter()
        self._waiting: deque[Utterance] = deque()
        self._final = False
        self._spoken = False
        self._frame = 0
        self._restoring: deque[tuple[int, int]] = deque()
        self._unrendered: deque[Frame] = deque()
        self._words: deque[tuple[int, WordTime]] = deque()
        self.feed(request.text, final=request.text_final)

    @property
    def frames(self) -> int:
        return self._frame + len(self._restoring)

    @property
    def pending(self) -> int:
        return len(self._unrendered)

    @property
    def done(self) -> bool:
        return self._final and self.progress is None and not self._waiting

    def feed(self, text: str, *, final: bool) -> None:
        for piece in self._segmenter.feed(text, final=final):
            try:
                self._waiting.append(self._phones(piece))
                self._spoken = True
            except NothingToSay:
                continue  # "***" between two sentences is no reason to fail them
        self._final = final
        if final and not self._spoken:
            raise NothingToSay("the text holds nothing that can be spoken", param="input")
        self._settle()

    def restore(self, arrays: Arrays) -> None:
        codes = arrays["codes"][:, 0].tolist()
        self._restoring.extend(zip(codes, arrays["advance"].tolist(), strict=True))
        self._settle()

    def plan(self) -> Plan | None:
        if self.progress is None or self._restoring:
            return None
        return Plan(self.cached, self.progress.end - self.cached)

    def evict(self) -> None:
        self.cached = 0

    def accept(self, code: int, advance: int, hidden: Tensor) -> None:
        """Take the next frame as sampled; `hidden` [dim] waits for its residual codebooks."""
        assert self.progress is not None
        self.cached = self.progress.end
        self._unrendered.append(Frame(hidden, code, advance, self._frame))
        self._move(code, advance)
        self._settle()

    def take(self, count: int) -> tuple[list[Frame], tuple[WordTime, ...]]:
        """The oldest `count` unrendered frames, and the words that end in them."""
        frames = [self._unrendered.popleft() for _ in range(count)]
        words = []
        while self._words and self._words[0][0] <= frames[-1].index:
            words.append(self._words.popleft()[1])
        return frames, tuple(words)

    def _settle(self) -> None:
        """Begin the next utterance if one is due, and replay what was restored of it."""
        while True:
            if self.progress is None and self._waiting:
                self.progress = Progress(self._waiting.popleft(), self._frame)
                self.cached = 0
            if self.progress is None or not self._restoring:
                return
            self._move(*self._restoring.popleft())
            self._words.clear()  # they were sent with the chunk that was restored

    def _move(self, code: int, advance: int) -> None:
        progress = self.progress
        assert progress is not None
        progress.move(code, advance)
        self._time_words(progress)
        self._frame += 1
        if progress.over:
            self.progress = None

    def _time_words(self, progress: Progress) -> None:
        """Words begin and end where the pointer enters and leaves them, after this frame."""
        pointer, after = progress.pointers[-1], self._frame + 1
        words = progress.utterance.words
        while progress.next_word < len(words):
            word = words[progress.next_word]
            if pointer >= word.start and not progress.word_frame:
                progress.word_frame = after
            if pointer < word.end:
                return
            timed = WordTime(word.text, progress.word_frame / self._rate, after / self._rate)
            self._words.append((self._frame, timed))
            progress.next_word += 1
            progress.word_frame = after if pointer >= word.end else 0
