"""Word times, and text that a model says of its own, on their way to the listener."""

from __future__ import annotations

from collections.abc import Sequence

from ttscommon.wire.messages import SaidText, WordTime


class Words:
    """Word times on their way to the listener: each once, across vocoders."""

    def __init__(self, last: tuple[float, float] = (-1.0, -1.0)) -> None:
        self.last = last
        self._waiting: list[WordTime] = []

    def add(self, words: Sequence[WordTime]) -> None:
        """Take words in order of time; those at or before the `last` one are known already."""
        for word in words:
            if (times := (word.start_s, word.end_s)) > self.last:
                self.last = times
                self._waiting.append(word)

    def take(self) -> tuple[WordTime, ...]:
        """Whatever waits: words may run ahead of their audio, and never behind it."""
        words, self._waiting = tuple(self._waiting), []
        return words


class Transcript:
    """Text that a model says, on its way to the listener: each piece once, across vocoders.

    characters: those before are known to the listener, or wait here.
    """

    def __init__(self, characters: int = 0) -> None:
        self.characters = characters
        self._waiting: list[SaidText] = []

    def add(self, said: Sequence[SaidText]) -> None:
        """Take pieces in their order."""
        for piece in said:
            if piece.end > self.characters:
                self.characters = piece.end
                self._waiting.append(piece)

    def take(self) -> tuple[SaidText, ...]:
        """Whatever waits: text may run ahead of its audio, and never behind it."""
        said, self._waiting = tuple(self._waiting), []
        return said
