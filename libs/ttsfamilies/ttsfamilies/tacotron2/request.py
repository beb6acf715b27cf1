"""A request as Tacotron 2 takes it, and the sentences of its text. No torch.

The table is that of the LJSpeech recipe: a blank, marks, letters, and phones that are not used. The
project's frontend reads numbers and abbreviations, where the recipe has a cleaner.

There is no cache, but what the LSTMs carry is rebuilt as one is: from the frames so far, a step
each, with the noise that each was made with.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from ttscommon.wire.fields import Array, Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import Parameter, completed
from ttscommon.wire.pieces import Pause, Piece
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.lmstream import ENDLESS
from ttsfamilies.base.talker.lmstream import REPLAY as PASSAGE_REPLAY
from ttsfamilies.base.talker.segments import LENGTH, PLACE, TimedStream
from ttsfamilies.base.talker.streams import Plan, Progress, SlotWriter
from ttsfamilies.base.text.frontend import EnglishFrontend, Substitution, Utterance, Word
from ttsfamilies.base.text.reader import Reader
from ttsfamilies.piper.phones import Sentence, Sentences, ids_of

_CAPITALS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SYMBOLS: Final = f"_-!'(),.:;? {_CAPITALS}{_CAPITALS.lower()}"
SYMBOLS: Final = 148
"""Rows of the table, 84 phones included."""
# In the form that voices have which put marks around a sentence.
TABLE: Final = {symbol: [at] for at, symbol in enumerate(_SYMBOLS)} | {"_": [], "^": [], "$": []}
_DASH: Final = "—"
_STOP: Final = "."


class Letters:
    """Reads utterances as the recipe's cleaner leaves them: small letters, and marks."""

    def __init__(self, frontend: EnglishFrontend) -> None:
        self._frontend = frontend

    def __call__(self, text: str, given: tuple[Substitution, ...] = ()) -> Sentence:
        return spelt_out(self._frontend.phones(text, given))


def spelt_out(utterance: Utterance) -> Sentence:
    """The words as they are read, with the marks behind them; there is one at the end."""
    symbols, words, marks = list[str](), [], _marks(utterance)
    for word in utterance.words:
        symbols += " " * bool(symbols)
        start = len(symbols)
        symbols += word.spoken.lower()
        words.append(word._replace(start=start, end=len(symbols)))
        symbols += marks.get(word.end, "")
    return Sentence((), tuple(words), (), tuple(symbols))


def _marks(utterance: Utterance) -> dict[int, str]:
    """Marks by the phone that they stand at: the pause behind a word."""
    pauses = [at for at, phone in enumerate(utterance.phones) if phone.word < 0][1:]
    found = dict(zip(pauses, utterance.marks, strict=True))
    last = pauses[-1]
    found[last] = found[last] or _STOP
    return {at: mark.replace(_DASH, "-") for at, mark in found.items()}


MOST_IDS: Final = 192
"""Of a sentence, about 13 s, as long as any that the model was trained on; a longer one is spoken
in parts.
"""
MOST_FRAMES: Final = 2000
"""Of a sentence: the reference's limit."""
# At its slowest.
_LETTER_S, _BEYOND_S = 0.15, 2.0
DROPOUT: Final = "prenet_dropout"
THRESHOLD: Final = "gate_threshold"
PARAMETERS: Final = (
    Parameter(
        DROPOUT,
        "number",
        0.5,
        "Share of the prenet that is dropped; the model was trained with the default, and may not"
        " end without.",
        0.0,
        0.9,
    ),
    Parameter(THRESHOLD, "number", 0.5, "How sure of its end a sentence has to be.", 0.01, 0.99),
)


class Spelling(NamedTuple):
    """A sentence, or a part of one, by its letters."""

    ids: tuple[int, ...]
    words: tuple[Word, ...]
    frames: int = MOST_FRAMES

    @property
    def length(self) -> int:
        """Steps before the first frame: the one that gives it."""
        return 1

    @property
    def longest_s(self) -> float:
        """See LmStream."""
        return _BEYOND_S + len(self.ids) * _LETTER_S


class TacotronPrepared(Prepared):
    """A request, and the sentences of its text: the encoder reads all of one at once."""

    def __init__(self, request: SpeechRequest, sentences: Sentences) -> None:
        self.request = request
        asked = completed(PARAMETERS, request.extra_params)
        threshold = float(asked[THRESHOLD])
        self.dropout = float(asked[DROPOUT])
        self.least = math.log(threshold / (1 - threshold))  # what the gate's logit has to exceed
        self.most_frames = request.sampling.max_new_tokens or ENDLESS
        self._reader = Reader(sentences)

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[Spelling]:
        """See Prepared."""
        for found in self._reader.read(pieces, final=final):
            assert not isinstance(found, Pause), "pauses are made for this family"
            assert isinstance(found, Sentence)
            for ids, words in ids_of(found, TABLE, MOST_IDS):
                if ids:
                    yield Spelling(ids, words)


BEGINS: Final = "begins"
"""Whether a frame is the first of its sentence."""
ENDS: Final = "ends"
"""Whether the gate said that it is the last one."""
_FLAG: Final = Field((), "u1", 2)
_ATTENDED: Final = MappingProxyType({PLACE: Field((), "i4"), ENDS: _FLAG})
REPLAY: Final[Mapping[str, Field]] = MappingProxyType({**PASSAGE_REPLAY, **_ATTENDED})
# One step after the other, each of which has all of the weights to read.
_WORK: Final = 16


def frame_of(mels: int) -> dict[str, Field]:
    """What the codec reads: a mel frame as the talker is fed it, and where a sentence begins."""
    return {"mel": Field((mels,), "f4"), BEGINS: _FLAG}


class TacotronStream(TimedStream):
    """See TalkerStream."""

    replay = REPLAY

    def __init__(self, prepared: TacotronPrepared, rate_hz: float, mels: int) -> None:
        super().__init__(prepared.most_frames, rate_hz)
        self._prepared = prepared
        self.frame = MappingProxyType({**frame_of(mels), **_ATTENDED})

    def progress(self) -> Progress:
        told, places = super().progress(), self._times.places
        if self._at >= len(self._passages):
            return told
        said: Spelling = self.passage
        place = places[-1] if places else 0
        begun = (w.text for w in reversed(said.words) if w.start <= place and w.text)
        return told._replace(reached=places, word=next(begun, ""))

    def _resume(self) -> None:
        super()._resume()
        self._times.begin(np.maximum.accumulate(self.spoken[PLACE]).tolist())
        if self.books[ENDS][-1]:
            self._next()

    def plan(self, ahead: int, *, dry: bool = False) -> Plan | None:
        plan = super().plan(ahead, dry=dry)
        if plan is None or plan.decode:
            return plan
        return Plan(plan.start, plan.count, work=_WORK * plan.count)

    def positions(self, branch: int) -> Arrays:
        """Of each step the frame before it."""
        spoken = self.spoken["mel"]
        return {"mel": np.concatenate([np.zeros((1, spoken.shape[1]), np.float32), spoken])}

    def begin(self, write: SlotWriter) -> None:
        said, spoken = self.passage, self.spoken["mel"]
        write("ids", said.ids)
        write(LENGTH, len(said.ids))
        write("begun", self._begun)
        write("mel", spoken[-1] if len(spoken) else np.zeros(spoken.shape[1], np.float32))
        write("over", 0)
        write("seed", self._prepared.request.seed)
        write("dropout", self._prepared.dropout)
        write("least", self._prepared.least)

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        known = len(self._times.places)
        self._times.places += _onwards(self._times.places, frames[PLACE])
        over = ended or len(self._times.places) >= self._limit
        self._times.find(self.passage.words, self._begun, known, ended=over)
        super().accept(cached, frames, ended)


def _onwards(before: Sequence[int], places: Array) -> list[int]:
    """The furthest places so far: the attention may look back, time does not."""
    found: list[int] = np.maximum.accumulate([before[-1] if before else 0, *places]).tolist()
    return found[1:]
