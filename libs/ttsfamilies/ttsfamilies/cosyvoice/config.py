"""A CosyVoice checkpoint's sizes, and the ids that its versions share or differ in. No torch.

Text tokens come one by one. Five of them, and what is said of them: fifteen tokens of speech, or
fewer where the model asks for more text by the fill token. A recording's transcript and tokens take
turns in the same way before. When the text ends, what is left of it and the task token follow, and
then speech to the end. Where the turns are follows from the tokens alone, not from their times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from ttscommon.engine.checkpoint import checked_config
from ttsfamilies.base.lm.llama import LlamaSizes
from ttsfamilies.base.talker.lmstream import ENDLESS

# Where sizes and tokenizer are published: a Qwen2 of which all weights but these were replaced.
BACKBONE: Final = "CosyVoice-BlankEN"
# Of S3 tokens; ids from here on end what is spoken at once.
TOKENS: Final = 6561
# Behind an instruction, or a system prompt: the first token that the text's own tokenizer lacks.
END_OF_PROMPT: Final = 151_646
# A text that is streamed: so many of its tokens, then so many of speech, in turn.
BLOCK_TEXT, BLOCK_SPEECH = 5, 15


@dataclass(frozen=True)
class BackboneSizes(LlamaSizes):
    """config.json of the backbone."""

    model_type: str = "qwen2"


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


def load_sizes(folder: Path) -> BackboneSizes:
    """Read and check the backbone's config.json; raises CheckpointError."""
    return checked_config(folder / BACKBONE, BackboneSizes, _problems)


def _problems(c: BackboneSizes) -> list[str]:
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
