"""A request as T3 takes it, its voice, and its prompts. No torch.

A sentence's tokens wait until it has all of them, because its frames say how many follow; where the
codec decodes on a grid, they are given out as they are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, Self

import numpy as np

from ttscommon.wire.errors import BadRequest, MalformedMessage
from ttscommon.wire.fields import Array, Arrays, Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import Parameter, completed
from ttsfamilies.base.lm.request import PassagesText, PenalisedDrawing, limited, tell
from ttsfamilies.base.s3 import TOKENS
from ttsfamilies.base.talker.blocks import keys, of_branches
from ttsfamilies.base.talker.lmstream import DRAWN, ENDLESS, PASSAGE, LmStream
from ttsfamilies.base.talker.lmstream import REPLAY as PASSAGE_REPLAY
from ttsfamilies.base.talker.streams import SlotWriter, Taken
from ttsfamilies.base.text.segment import Passages
from ttsfamilies.chatterbox.facts import BEGIN, IDS, SILENCE, SPEAKER, T3Sizes
from ttsfamilies.chatterbox.net import SPEECH, TEXT, UNTOLD
from ttsfamilies.chatterbox.tokenizer import ends_sentence

# In front of a text's ids and behind them, of a Llama.
START_TEXT: Final = 255
STOP_TEXT: Final = 0
# Of a recording, for the talker alone; the codec's conditions are beside them.
HEARD: Final = "t3_token"
SPEAKER_ROW: Final = "t3_speaker"
# Of a prompt with all of its speech: 40 s, as long as the package speaks, and a long sentence.
MOST_POSITIONS: Final = 2048
_MOST_TOKENS: Final = 1000
# An id of a text lasts a quarter of a second at the most; a sentence that goes on is babble.
_TOKENS_AN_ID, _TOKENS_BEYOND = 6, 100
_TEXT_SHARE: Final = 4
# A longer one is divided at its commas.
_SENTENCE_IDS: Final = 200
_GUIDED: Final = (
    Parameter(
        *("exaggeration", "number", 0.5, "How strongly a voice is acted; 0.5 is neutral.", 0, 2)
    ),
    Parameter(
        *("cfg_weight", "number", 0.5),
        *("How much is taken away of what is said without the text; 0: nothing.", 0, 2),
    ),
    Parameter(
        *("min_p", "number", 0.05),
        *("Ids less likely than this share of the likeliest are out.", 0, 1),
    ),
)


def parameters(c: T3Sizes) -> tuple[Parameter, ...]:
    """Settings of the package that have no field of their own."""
    return () if c.gpt else _GUIDED


@dataclass(frozen=True)
class ChatterboxDrawing(PenalisedDrawing):
    """min_p, weight, emotion: see the package's settings above."""

    min_p: float = 0.0
    weight: float = 0.0
    emotion: float = 0.0

    @classmethod
    def of(cls, request: SpeechRequest, c: T3Sizes) -> Self:
        """The request's settings over those of its checkpoint's package."""
        extra = completed(parameters(c), request.extra_params)
        usual = cls(
            0.8,
            1000 if c.gpt else 0,
            0.95 if c.gpt else 1.0,
            2.0 if c.multilingual else 1.2,
            float(extra.get("min_p", 0.0)),
            float(extra.get("cfg_weight", 0.0)),
            float(extra.get("exaggeration", 0.0)),
        )
        return usual.with_asked(request.sampling)


class VoicePositions(NamedTuple):
    """The positions that a prompt begins with: kind, id and place [positions] int64, and row
    [positions, dim] float32.
    """

    kind: Array
    id: Array
    at: Array
    row: Array


class SentencePrompt(NamedTuple):
    """What is prefilled of a sentence. ids: of its text. length: positions, with the voice before
    and the beginning of speech behind them. frames: tokens that may follow.
    """

    ids: tuple[int, ...]
    length: int
    frames: int


class ChatterboxPrepared(PassagesText):
    """See PassagesText. A passage is a sentence."""

    bounded = True

    def __init__(
        self,
        request: SpeechRequest,
        c: T3Sizes,
        conditions: VoicePositions,
        drawing: ChatterboxDrawing,
        read: Callable[[str], Sequence[int]],
        positions: int,
    ) -> None:
        """read: a sentence's ids. positions: that the cache has, for one branch or for two."""
        self.request, self.conditions, self.drawing, self.sizes = request, conditions, drawing, c
        self.branches = 2 if drawing.weight and not c.gpt else 1
        self._read_ids, self._positions = read, min(MOST_POSITIONS, positions // self.branches)
        self.most_frames = request.sampling.max_new_tokens or ENDLESS
        self.passages = Passages(lambda text: len(read(text)), _SENTENCE_IDS, ends_sentence)

    def prompt(self, text: str) -> SentencePrompt:
        ids = tuple(self._read_ids(text))
        length = len(self.conditions.kind) + len(ids) + self.sizes.begins
        limited(len(ids), self._positions // _TEXT_SHARE, "a sentence takes")
        usual = min(_MOST_TOKENS, _TOKENS_BEYOND + _TOKENS_AN_ID * len(ids))
        asked = self.request.sampling.max_new_tokens or usual
        most = min(asked, self._positions - length)
        return SentencePrompt(ids, length, max(1, most))


def heard_of(reference: Arrays, c: T3Sizes) -> tuple[Array, Array]:
    """A voice's vector and the tokens of its recording; raises MalformedMessage for others."""
    speaker, tokens = reference.get(SPEAKER_ROW), reference.get(HEARD)
    if speaker is None or tokens is None or speaker.shape != (1, SPEAKER) or tokens.ndim != 1:
        raise MalformedMessage("a reference of another family")
    tokens = tokens[: c.heard].astype(np.int64)
    if not len(tokens) or tokens.min() < 0 or tokens.max() >= TOKENS:
        raise BadRequest("the recording has nothing that could be spoken like", param="ref_audio")
    return speaker[0].astype(np.float32), tokens


LEFT: Final = "left"
REPLAY: Final[Mapping[str, Field]] = MappingProxyType({**PASSAGE_REPLAY, LEFT: Field((), "i4")})
UNKNOWN: Final = -1


class ChatterboxStream(LmStream):
    """See TalkerStream."""

    frame = MappingProxyType({"token": Field((), "i2", TOKENS)})

    def __init__(self, prepared: ChatterboxPrepared, *, whole: bool) -> None:
        """whole: sentences are given out at once."""
        super().__init__(prepared.most_frames)
        self._prepared, self._whole, self._tail = prepared, whole, prepared.sizes.tail
        self._given = 0  # frames that may be taken, and those that were restored
        self._ends: list[int] = []  # of sentences, as the first frame behind each
        self._left = UNKNOWN  # tokens behind the last that is in the books
        self._promised = 0  # tokens of the present sentence, where the log has told of them
        known = prepared.conditions
        self._keys = of_branches(*[keys(known, len(known.kind))] * self.branches)

    @property
    def branches(self) -> int:
        return self._prepared.branches

    @property
    def frames(self) -> int:
        return self._given

    @property
    def _limit(self) -> int:
        return self._promised or super()._limit

    def prefix(self) -> Sequence[bytes]:
        return self._keys

    def restore(self, arrays: Arrays) -> None:
        self._left = int(arrays[LEFT][-1])
        super().restore(arrays)

    def rewind(self, frames: int) -> None:
        """Where a sentence is known as a whole, its length stands."""
        if frames >= self._given:
            self._evict()
            return
        self._left = int(self._lefts(np.array([frames - 1]))[0])
        self._ends = self._ends[: 1 + int(np.searchsorted(self._ends, frames - 1, side="right"))]
        super().rewind(frames)

    def _resume(self) -> None:
        super()._resume()
        self._given, self._promised, left = self._frames, 0, self._left
        if left < 0:
            return
        if left > self._tail:
            self._promised = self._frames - self._begun + left - self._tail
        else:
            self._end(left)

    def _next(self) -> None:
        self._end(self._tail)

    def _end(self, silence: int) -> None:
        """So many tokens of silence, and the sentence is over."""
        if silence:
            of, tokens = np.full(silence, self._at, np.int32), np.full(silence, SILENCE, np.int16)
            self._books.append({"token": tokens, PASSAGE: of})
            self._frames += silence
        self._ends.append(self._frames)
        self._given, self._promised = self._frames, 0
        super()._next()

    def _settle(self) -> None:
        if self._frames - self._begun >= (self._promised or ENDLESS):
            self._next()
        super()._settle()

    def accept(self, cached: int, frames: Arrays, ended: bool) -> None:
        super().accept(cached, frames, ended)
        if self._begun < self._frames and self._frames >= self._most:
            self._next()
        if not self._whole:
            self._given = self._frames

    def take(self, count: int) -> Taken:
        left = self._lefts(np.arange(self._taken, self._taken + count))
        taken = super().take(count)
        return taken._replace(frames={**taken.frames, LEFT: left})

    def _lefts(self, at: Array) -> Array:
        """Of frames, how many of their sentence follow; UNKNOWN before its end is known."""
        ends = np.array([*self._ends, ENDLESS])
        left = ends[np.searchsorted(ends, at, side="right")] - 1 - at
        known = left < (ENDLESS if self._whole else self._tail)
        return np.where(known, left, UNKNOWN).astype(np.int32)

    def drawn(self) -> Arrays:
        row = np.zeros((1, self._prepared.conditions.row.shape[1]), np.float32)
        told = {"kind": SPEECH, "id": DRAWN, "at": self._done}
        return {**{name: np.full(1, value) for name, value in told.items()}, "row": row}

    def positions(self, branch: int) -> Arrays:
        voice, ids = self._prepared.conditions, self.passage.ids
        text = np.full(len(ids), UNTOLD) if branch else np.array(ids, np.int64)
        begins = (BEGIN,) * self._prepared.sizes.begins
        said = np.concatenate([begins, self.spoken["token"]]).astype(np.int64)
        at = np.maximum(np.arange(len(said)) - len(begins) + 1, 0)
        behind = len(text) + len(said)
        parts = {
            "kind": (voice.kind, np.full(len(text), TEXT), np.full(len(said), SPEECH)),
            "id": (voice.id, text, said),
            "at": (voice.at, np.arange(len(text)), at),
            "row": (voice.row, np.zeros((behind, voice.row.shape[1]), np.float32)),
        }
        return {name: np.concatenate(part) for name, part in parts.items()}

    def begin(self, write: SlotWriter) -> None:
        said = self._frames - self._begun
        seen = np.zeros(IDS, np.uint8)
        seen[self.spoken["token"]] = 1
        write("seen", seen)
        write("said", said)
        write("frame", self._frames)
        write("least", self._promised or self._prepared.sizes.gpt)
        write("drawn", 0)
        tell(write, self._prepared.request.seed, self._prepared.drawing)
