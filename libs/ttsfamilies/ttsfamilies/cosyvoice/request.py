"""A request as CosyVoice takes it: its voice, how it is to be spoken, and its text. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from ttscommon.engine.checkpoint import checked_config
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import Array, Arrays
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Pause, Piece
from ttsfamilies.base.lm.llama import Qwen2Sizes
from ttsfamilies.base.lm.qwen2_tokenizer import GrowingIds, Qwen2Tokenizer
from ttsfamilies.base.lm.request import (
    Drawing,
    IdsPrompt,
    limited,
    nothing_to_say,
    plain_text,
    speakable,
)
from ttsfamilies.base.s3 import TOKENS
from ttsfamilies.base.talker.base import Prepared, recorded
from ttsfamilies.base.talker.lmstream import ENDLESS
from ttsfamilies.base.text.segment import Passages

# A checkpoint's sizes, and the ids that its versions share or differ in.
#
# Text tokens come one by one. Five of them, and what is said of them: fifteen tokens of speech, or
# fewer where the model asks for more text by the fill token. A recording's transcript and tokens
# take turns in the same way before. When the text ends, what is left of it and the task token
# follow, and then speech to the end. Where the turns are follows from the tokens alone, not from
# their times.


# Where sizes and tokenizer are published: a Qwen2 of which all weights but these were replaced.
BACKBONE: Final = "CosyVoice-BlankEN"
# Behind an instruction, or a system prompt: the first token that the text's own tokenizer lacks.
END_OF_PROMPT: Final = 151_646
# A text that is streamed: so many of its tokens, then so many of speech, in turn.
BLOCK_TEXT, BLOCK_SPEECH = 5, 15


@dataclass(frozen=True)
class SpeechRows:
    """A version of the speech table.

    count: rows. fill: the id with which the model asks for more text. start, task: rows of their
    own table, or of this one. system: what stands before an instruction or a transcript.
    """

    version: int
    count: int
    fill: int
    start: int
    task: int
    own_table: bool
    system: str = ""

    @property
    def highest_hz(self) -> float:
        """Of the mel frames that its flow begins with."""
        return 8_000.0 if self.version == 2 else 12_000.0


V2: Final = SpeechRows(2, TOKENS + 3, TOKENS + 2, 0, 1, own_table=True)
V3: Final = SpeechRows(
    3,
    TOKENS + 200,
    TOKENS + 3,
    TOKENS,
    TOKENS + 2,
    own_table=False,
    system="You are a helpful assistant.",
)


def load_sizes(folder: Path) -> Qwen2Sizes:
    """Read and check the backbone's config.json; raises CheckpointError."""
    return checked_config(folder / BACKBONE, Qwen2Sizes, _problems)


def _problems(c: Qwen2Sizes) -> list[str]:
    found = c.problems()
    if c.model_type != "qwen2" or c.vocab_size <= END_OF_PROMPT:
        found.append(f"a {c.model_type} with {c.vocab_size} ids ends no prompt")
    return found


@dataclass(frozen=True)
class Opening:
    """What stands before a text: ids of positions, so that tokens of speech have theirs.

    header: before all turns. text, speech: of a recording. task: behind all text.
    """

    header: tuple[int, ...]
    text: tuple[int, ...]
    speech: tuple[int, ...]
    task: int

    @property
    def whole(self) -> tuple[int, ...]:
        """Positions before a text that is not streamed."""
        return (*self.header, *self.text)


class Block(NamedTuple):
    """ids: positions before its speech. limit: of its tokens; None in the last."""

    ids: tuple[int, ...]
    limit: int | None

    @property
    def length(self) -> int:
        return len(self.ids)

    @property
    def frames(self) -> int:
        """As many, or any number."""
        return ENDLESS if self.limit is None else self.limit


class Blocks:
    """The blocks of one text, as far as it is known."""

    def __init__(self, opening: Opening) -> None:
        self.known: list[Block] = []
        self._task = opening.task
        self._given, self._waiting = list(opening.header), list(opening.text)
        self._speech = list(opening.speech)
        self._limit = BLOCK_SPEECH - len(opening.speech) % BLOCK_SPEECH
        self._fresh = True  # none of the turns was taken yet

    def feed(self, text: Sequence[int], *, final: bool) -> None:
        """Take the next tokens of the text."""
        for token in text:
            self._waiting.append(token)
            self._take_prompt()
            if not self._speech:
                self._begin()
        if final:
            self.known.append(Block((*self._given, *self._waiting, self._task), None))

    def _take_prompt(self) -> None:
        while self._speech and len(self._waiting) >= BLOCK_TEXT:
            self._take_text()
            self._given += self._speech[:BLOCK_SPEECH]
            del self._speech[:BLOCK_SPEECH]

    def _take_text(self) -> None:
        self._given += self._waiting[:BLOCK_TEXT]
        del self._waiting[:BLOCK_TEXT]
        self._fresh = False

    def _begin(self) -> None:
        """Begin a block; behind a recording the first needs no text of its own."""
        if self.known or self._fresh:
            if len(self._waiting) < BLOCK_TEXT:
                return
            self._take_text()
        self.known.append(Block(tuple(self._given), self._limit))
        self._given, self._limit = [], BLOCK_SPEECH


def common(opening: Opening) -> int:
    """Leading positions of the first block that come before any of the text's own tokens."""
    full = len(opening.text) // BLOCK_TEXT
    turns = min(full, -(-len(opening.speech) // BLOCK_SPEECH))
    spoken = min(len(opening.speech), turns * BLOCK_SPEECH)
    return len(opening.header) + turns * BLOCK_TEXT + spoken


# The reference divides texts so that about 80 tokens are spoken at once.
PASSAGE_TOKENS: Final = 80
# Tokens of speech for each of text, at the least and at the most.
LEAST_RATIO, MOST_RATIO = 2, 20
_PROMPT_SHARE: Final = 2


# The reference's settings where a request says nothing.
_USUAL: Final = Drawing(temperature=1.0, top_k=25, top_p=0.8)


class MoreText(NamedTuple):
    """Tokens of a streamed text that are final now."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class Vocabulary:
    """Ids of positions. speech: of the first token of speech. start, task: see CosyNet."""

    tokenizer: Qwen2Tokenizer
    speech: int
    start: int
    task: int
    system: str


def opening(request: SpeechRequest, reference: Arrays | None, v: Vocabulary) -> Opening:
    """What stands before the text.

    With a transcript the recording is gone on from; without, or under an instruction, the language
    model is not told of it, and the voice is the codec's. Raises BadRequest without a recording.
    """
    reference = recorded(reference)
    start, tokens = (v.start,), v.tokenizer.ids
    if request.instructions:
        told = f"{v.system} {request.instructions}" if v.system else request.instructions
        said = (*tokens(told), END_OF_PROMPT)
        if v.system:
            return Opening((*start, *said), (), (), v.task)
        return Opening(start, said, (), v.task)  # version 2 reads it as the text's beginning
    system = (*tokens(v.system), END_OF_PROMPT) if v.system else ()
    heard = request.reference
    text = "" if heard is None or heard.x_vector_only else heard.text
    if not text:
        return Opening((*start, *system), (), (), v.task)
    speech = tuple(v.speech + int(token) for token in _checked(reference["token"]))
    return Opening((*start, *system), tuple(tokens(text)), speech, v.task)


def _checked(token: Array) -> Array:
    if not len(token) or token.min() < 0 or token.max() >= TOKENS:
        raise BadRequest("the recording has no tokens of speech", param="ref_audio")
    return token


class CosyPrepared(Prepared):
    """A request whose voice is known, and its text so far.

    streamed: text and speech take turns; otherwise a passage is known before its speech. Live text
    is, unless the request says otherwise, as it could not be spoken before its end.
    """

    def __init__(
        self,
        request: SpeechRequest,
        opening: Opening,
        vocabulary: Vocabulary,
        positions: int,
    ) -> None:
        """positions: of a sequence."""
        self.request, self.opening = request, opening
        whole = request.text_final if request.whole_text is None else request.whole_text
        self.streamed = not whole
        self.drawing = _USUAL.with_asked(request.sampling)
        self._tokenizer, self._positions = vocabulary.tokenizer, positions
        self.most_frames = request.sampling.max_new_tokens or ENDLESS
        self._passages = Passages(lambda text: len(self._tokenizer.ids(text)), PASSAGE_TOKENS)
        self._growing, self._given = GrowingIds(self._tokenizer), 0
        self._spoken = self._begun = False
        # Version 3 counts its system prompt as text where no transcript follows it.
        alone = bool(vocabulary.system) and not (opening.text or request.instructions)
        self._counted = len(opening.header) - 1 if alone else 0

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[IdsPrompt | MoreText]:
        """Raises TextTooLong, NothingToSay."""
        text = "".join(map(plain_text, pieces))
        self._spoken = self._spoken or speakable(text)
        if self.streamed:
            yield from self._tokens(text, pieces, final=final)
        else:
            yield from map(self._passage, filter(speakable, self._passages.feed(text, final=final)))
        if final and not self._spoken:
            raise nothing_to_say()

    def _tokens(self, text: str, pieces: Sequence[Piece], *, final: bool) -> Iterator[MoreText]:
        paused = final and bool(pieces) and isinstance(pieces[-1], Pause)
        # Space around a text is none of it.
        text = text if self._begun else text.lstrip()
        self._begun = self._begun or bool(text)
        self._growing.feed(text, final=final, trimmed=paused)
        ids = tuple(self._growing.known[self._given :])
        if ids and self._spoken:
            self._given += len(ids)
            yield MoreText(ids)

    def _passage(self, text: str) -> IdsPrompt:
        said, before = self._tokenizer.ids(text), self.opening
        ids = (*before.whole, *said, before.task, *before.speech)
        limited(len(ids), self._positions // _PROMPT_SHARE, "a sentence and the recording take")
        count = len(said) + self._counted
        most = min(MOST_RATIO * count, self._positions - len(ids))
        return IdsPrompt(ids, most, len(before.whole), least=min(LEAST_RATIO * count, most))
