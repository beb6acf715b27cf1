"""A request as Kokoro takes it, and the segments that its text is spoken in. No torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import Array, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Pause, Piece
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.lmstream import ENDLESS
from ttsfamilies.base.talker.segments import LENGTH, SegmentStream
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.base.text.frontend import (
    Breaths,
    EnglishFrontend,
    Spoken,
    Substitution,
    Utterance,
    Word,
)
from ttsfamilies.base.text.misaki import SYMBOLS, TOKENS, tokens_of
from ttsfamilies.base.text.reader import Reader
from ttsfamilies.base.text.rules import british
from ttsfamilies.kokoro.sizes import LANGUAGES, style_row
from ttsfamilies.piper.phones import Espeak, Sentence

Read: TypeAlias = Callable[[str, tuple[Substitution, ...]], Utterance]
"""Raises NothingToSay."""

_ENGLISH: Final = {"en-US": False, "en-GB": True}
# eSpeak's own names of the languages that the published package asks it for.
_ESPEAK: Final = {"es": "es", "fr": "fr-fr", "hi": "hi", "it": "it", "pt-BR": "pt-br"}
# Sounds of two letters that have one of their own here.
_JOINED: Final = {
    "aɪ": "I",
    "aʊ": "W",
    "dz": "ʣ",
    "dʒ": "ʤ",
    "eɪ": "A",
    "oʊ": "O",
    "əʊ": "Q",
    "ss": "S",
    "ts": "ʦ",
    "tʃ": "ʧ",
    "ɔɪ": "Y",
}


def ways_of(english: EnglishFrontend) -> Mapping[str, Read]:
    """How texts are read on this machine, by language."""
    found: dict[str, Read] = {
        tag: partial(_english, english, british) for tag, british in _ENGLISH.items()
    }
    if Espeak.installed():
        found |= {tag: Espeak(voice) for tag, voice in _ESPEAK.items()}
    return {tag: found[tag] for tag in LANGUAGES.values() if tag in found}


def way_of(language: str, ways: Collection[str]) -> str:
    """Which of the ways reads a language; raises BadRequest."""
    own = ("en-GB" if british(language) else language, language.partition("-")[0])
    for tag in own:
        if found := [way for way in ways if way == tag or way.partition("-")[0] == tag]:
            return found[0]
    raise BadRequest(f"this model reads {', '.join(ways)}", param="language")


def _english(
    frontend: EnglishFrontend, british: bool, text: str, given: tuple[Substitution, ...]
) -> Utterance:
    return frontend.phones(text, given, british)


def spoken(utterance: Utterance) -> Spoken:
    """The phones of an utterance, each a character, and its words among them."""
    if isinstance(utterance, Sentence):
        return _joined(utterance)
    tokens = tokens_of(utterance)
    symbols = "".join(SYMBOLS[token] for token in tokens.ids[1:-1])
    words = tuple(w._replace(start=w.start - 1, end=w.end - 1) for w in tokens.words)
    return Spoken(symbols, words)


def _joined(sentence: Sentence) -> Spoken:
    """eSpeak's phones in this alphabet."""
    symbols, places, at = "", [0], 0
    while at < len(sentence.symbols):
        two = "".join(sentence.symbols[at : at + 2])
        size = 2 if two in _JOINED else 1
        places += [len(symbols)] * (size - 1)
        symbols += _JOINED.get(two, sentence.symbols[at].replace("-", ""))
        places.append(len(symbols))
        at += size

    def placed(word: Word) -> Word:
        return word._replace(start=places[word.start], end=places[word.end])

    return Spoken(symbols, tuple(map(placed, sentence.words)))


SPEEDS: Final = (0.5, 2.0)
_SILENCE: Final = 0


@dataclass(frozen=True, eq=False)
class PacedSegment:
    """ids with silence at both ends. pace: how many times as fast each is spoken. row: of the
    voice's table, and the prosody's part of it.
    """

    ids: tuple[int, ...]
    words: tuple[Word, ...]
    pace: Array
    row: int
    style: Array
    frames: int = ENDLESS

    @property
    def length(self) -> int:
        return len(self.ids)


class KokoroPrepared(Prepared):
    """A request whose voice is known. Its text is read utterance by utterance, and cut."""

    def __init__(
        self,
        request: SpeechRequest,
        read: Read,
        pack: Array,
        vocabulary: Mapping[str, int],
        pace: float,
    ) -> None:
        """pack: a voice's table. vocabulary: the checkpoint's ids of symbols. pace: the voice's."""
        self.request, self._pace = request, request.speed * pace
        self._reader, self._pack, self._vocabulary = Reader(read), pack, vocabulary
        self._breaths = Breaths()

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[PacedSegment]:
        """See Prepared."""
        for found in self._reader.read(pieces, final=final):
            if not isinstance(found, Pause):
                yield from map(self._segment, self._breaths.cut(spoken(found)))

    def _segment(self, part: Spoken) -> PacedSegment:
        """Symbols beside the vocabulary are left out, but count for the row, as in the package."""
        row = style_row(len(part.symbols), len(self._pack))
        ids, at = [_SILENCE], []
        for symbol in part.symbols:
            at.append(len(ids))
            ids += [self._vocabulary[symbol]] if symbol in self._vocabulary else []
        at.append(len(ids))
        words = tuple(word._replace(start=at[word.start], end=at[word.end]) for word in part.words)
        pace = np.full(len(ids) + 1, self._pace, np.float32)
        for word in words:
            pace[word.start : word.end] *= word.rate
        style = self._pack[row, self._pack.shape[1] // 2 :]
        return PacedSegment((*ids, _SILENCE), words, pace, row, style)


def checked(vocabulary: Mapping[str, int]) -> Mapping[str, int]:
    """A checkpoint's vocabulary; raises CheckpointError for one that English cannot be said in."""
    missing = "".join(symbol for symbol in TOKENS if symbol not in vocabulary)
    if missing:
        raise CheckpointError(f"config.json: the vocabulary lacks {missing!r}")
    return vocabulary


class KokoroStream(SegmentStream):
    """See SegmentStream. frame: depends on the checkpoint's sizes."""

    def __init__(self, frame: Mapping[str, Field], rate_hz: float, passes: int) -> None:
        super().__init__(rate_hz, passes)
        self.frame = frame

    def begin(self, write: SlotWriter) -> None:
        segment: PacedSegment = self.passage
        write("ids", segment.ids)
        write("pace", segment.pace)
        write("style", segment.style)
        write("row", segment.row)
        write(LENGTH, segment.length)
