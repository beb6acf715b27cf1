"""A request as a Piper voice takes it, and its sentences. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import Parameter, completed
from ttscommon.wire.pieces import Pause, Piece
from ttsfamilies.base.talker.base import Prepared
from ttsfamilies.base.talker.lmstream import ENDLESS
from ttsfamilies.base.talker.segments import LENGTH, Grid, SegmentStream
from ttsfamilies.base.talker.streams import SlotWriter
from ttsfamilies.base.text.frontend import Word
from ttsfamilies.base.text.reader import Reader
from ttsfamilies.base.text.segment import Segmenter
from ttsfamilies.piper.phones import Sentence, Sentences, ids_of
from ttsfamilies.piper.voice import PiperConfig

MOST_IDS: Final = 768
"""Of a segment, about 20 s; a longer one is spoken in parts."""
SPEEDS: Final = 0.25, 4.0
_LONGEST_WORDS: Final = 80
"""More than fit into a segment: that is what cuts a sentence."""
PHONES: Final = "phones"
FIRST_CLAUSE: Final = "first_clause"
OWN, ESPEAK = "own", "espeak"


class SaidSentence(NamedTuple):
    """A sentence, or a part of one. sentence: its number in the text. rates: of each id."""

    ids: tuple[int, ...]
    words: tuple[Word, ...]
    sentence: int
    rates: tuple[float, ...]
    frames: int = ENDLESS

    @property
    def length(self) -> int:
        return len(self.ids)


def parameters_of(config: PiperConfig, ways: Sequence[str]) -> tuple[Parameter, ...]:
    """Settings with the voice's own defaults. ways: how text may become phones, default first."""
    own = config.inference
    found = (
        Parameter("noise_scale", "number", own.noise_scale, "How much the sound varies.", 0.0, 2.0),
        Parameter(
            "length_scale", "number", own.length_scale, "Slower above 1, besides speed.", 0.25, 4.0
        ),
        Parameter("noise_w", "number", own.noise_w, "How much durations vary.", 0.0, 2.0),
        Parameter(
            FIRST_CLAUSE,
            "switch",
            default=False,
            about="The first clause is spoken by itself: sooner heard, with another melody.",
        ),
    )
    if len(ways) < 2:
        return found
    about = "What reads the text: the project's frontend, or eSpeak NG where it is installed."
    return (*found, Parameter(PHONES, "choice", ways[0], about, choices=tuple(ways)))


class PiperPrepared(Prepared):
    """A request, and the sentences of its text. speaker: its number."""

    def __init__(
        self,
        request: SpeechRequest,
        speaker: int,
        config: PiperConfig,
        ways: Mapping[str, Sentences],
    ) -> None:
        self.request, self.speaker = request, speaker
        asked = completed(parameters_of(config, tuple(ways)), request.extra_params)
        self.noise, self.noise_w = float(asked["noise_scale"]), float(asked["noise_w"])
        self.length = float(asked["length_scale"]) / request.speed
        self._table = config.phoneme_id_map
        segmenter = Segmenter(whole=not asked[FIRST_CLAUSE], longest_words=_LONGEST_WORDS)
        way = ways[str(asked.get(PHONES, next(iter(ways))))]
        self._reader = Reader(way, segmenter=segmenter)
        self._sentences = 0

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[SaidSentence]:
        for found in self._reader.read(pieces, final=final):
            assert not isinstance(found, Pause), "pauses are made for this family"
            assert isinstance(found, Sentence)
            for ids, words in ids_of(found, self._table, MOST_IDS):
                rates = [1.0] * len(ids)
                for word in words:
                    rates[word.start : word.end] = [word.rate] * (word.end - word.start)
                yield SaidSentence(ids, words, self._sentences, tuple(rates))
                self._sentences += 1


BEGINS: Final = "begins"
_WORK: Final = 6
"""What a frame of a window costs, in positions of a pass over ids."""


def frame_of(latent: int) -> dict[str, Field]:
    """What the generator reads: a latent, and whether a sentence begins with it."""
    return {"z": Field((latent,), "f4"), BEGINS: Field((), "u1", 2)}


class PiperStream(SegmentStream):
    """See TalkerStream. reach: frames around a window that are computed with it."""

    def __init__(
        self,
        prepared: PiperPrepared,
        rate_hz: float,
        passes: int,
        grid: Grid,
        latent: int,
        reach: int,
    ) -> None:
        super().__init__(rate_hz, passes, grid)
        self.frame = MappingProxyType(frame_of(latent))
        self._prepared, self._reach = prepared, reach

    def work(self, frames: int) -> int:
        return _WORK * (frames + 2 * self._reach)

    def begin(self, write: SlotWriter) -> None:
        said: SaidSentence = self.passage
        write("ids", said.ids)
        write("stretch", (self._prepared.length / np.array(said.rates)).astype(np.float32))
        write(LENGTH, said.length)
        write("sentence", said.sentence)
        write("seed", self._prepared.request.seed)
        for name in ("speaker", "noise", "noise_w"):
            write(name, getattr(self._prepared, name))
