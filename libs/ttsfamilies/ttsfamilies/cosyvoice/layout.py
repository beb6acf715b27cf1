"""The turns that a streamed text and its speech take, as the authors' code has them. No torch.

Text tokens come one by one. Five of them, and what is said of them: fifteen tokens of speech, or
fewer where the model asks for more text by the fill token. A recording's transcript and tokens take
turns in the same way before. When the text ends, what is left of it and the task token follow, and
then speech to the end. Where the turns are follows from the tokens alone, not from their times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ttsfamilies.cosyvoice.config import BLOCK_SPEECH, BLOCK_TEXT


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
