"""The checkpoint's text tokenizer, with the chat template's turns around a text."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

from ttscommon.engine.checkpoint import CheckpointError
from ttsfamilies.base.lm.qwen2_tokenizer import GrowingIds, Qwen2Tokenizer

# The chat template's opening. A line end that begins a text merges with the template's own, so
# both are tokenised together.
_ROLE: Final = "assistant\n"
_ROLE_TOKENS: Final = 2


class TurnTokenizer(Qwen2Tokenizer):
    """Text to ids. Used by any number of threads."""

    @classmethod
    def load(cls, checkpoint: Path) -> Self:
        """See Qwen2Tokenizer."""
        loaded = super().load(checkpoint)
        if len(loaded.ids(_ROLE)) != _ROLE_TOKENS:
            raise CheckpointError(f"{checkpoint}: the tokenizer divides the word 'assistant'")
        return loaded

    def turn(self, role: str, text: str) -> list[int]:
        """Tokens of a whole turn of the chat template."""
        start, end = self.special("<|im_start|>"), self.special("<|im_end|>")
        return [start, *self.ids(f"{role}\n{text}"), end, *self.ids("\n")]

    def spoken(self) -> GrowingText:
        """The text of the speaker's turn, which may still grow."""
        return GrowingText(self, self.special("<|im_start|>"))

    def transcript(self, text: str) -> tuple[int, ...]:
        """Tokens of a reference's transcript, as they stand before the text to speak."""
        return tuple(self.ids(_ROLE + text)[_ROLE_TOKENS:])


class GrowingText(GrowingIds):
    """The text of a turn as it arrives.

    role: the first three tokens of the turn, known as soon as any token of the text is.
    """

    def __init__(self, tokenizer: TurnTokenizer, start: int) -> None:
        super().__init__(tokenizer, _ROLE)
        self.known = [start]

    @property
    def role(self) -> tuple[int, ...]:
        return tuple(self.known[: 1 + _ROLE_TOKENS])

    @property
    def tokens(self) -> tuple[int, ...]:
        """Tokens of the text that are final."""
        return tuple(self.known[1 + _ROLE_TOKENS :])
