"""Text to ids, a Chinese character at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ttsfamilies.base.lm.tokenizer import TextTokenizer

_SPACE: Final = "\u2581"
_UNKNOWN: Final = "<unk>"


class CharacterTokenizer(TextTokenizer):
    """tokenizer.json; tokens of several Chinese characters are told as one token each."""

    def __init__(self, plain: TextTokenizer) -> None:
        super().__init__(plain._tokenizer, plain.added)
        known: dict[str, int] = self._tokenizer.get_vocab()
        unknown = known.get(_UNKNOWN, 0)
        self.size = 1 + max((*known.values(), *plain.added.values()))
        self._apart = {
            id: tuple(known.get(character, unknown) for character in token)
            for whole, id in known.items()
            if (token := whole.replace(_SPACE, "")) in known and _chinese(token)
        }

    @classmethod
    def load(cls, checkpoint: Path) -> CharacterTokenizer:
        """Raises CheckpointError."""
        return cls(TextTokenizer.load(checkpoint))

    def ids(self, text: str) -> list[int]:
        return [part for id in super().ids(text) for part in self._apart.get(id, (id,))]


def _chinese(token: str) -> bool:
    """Several characters, and no others."""
    return len(token) > 1 and all("\u4e00" <= character <= "\u9fff" for character in token)
