"""Long texts in passages: whole sentences, as many as a model speaks well at once.

Where a passage ends follows from the text alone, as utterances do: not from how the text arrived.
A text that fits is one passage, as it was written, on one line: what these models learned from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ttsfamilies.base.text.segment import Segmenter

_UNMEASURED: Final = 8
_ONE_LINE: Final = str.maketrans("\t\n", "  ")


class Passages:
    """The passages of one request's text, in order.

    measure: how long a text is, in whatever the model counts. most: of a passage, unless one
    utterance is longer. ends: whether a text that ends with an utterance is a passage, however
    short.
    """

    def __init__(
        self,
        measure: Callable[[str], int],
        most: int,
        ends: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._measure, self._most, self._ends = measure, most, ends
        self._segmenter = Segmenter()
        self._text = ""
        self._end = 0  # of the passage's last utterance, within the text

    def feed(self, text: str, *, final: bool) -> Iterator[str]:
        """Add text: passages that are certain now; all of them with `final`."""
        self._text += text
        for utterance in self._segmenter.feed(text, final=final):
            end = self._text.index(utterance, self._end) + len(utterance)
            if self._end and self._too_long(self._text[:end]):
                yield self._taken()
                end = self._text.index(utterance) + len(utterance)
            self._end = end
            if self._ends(self._text[:end]):
                yield self._taken()
        if final and self._end:
            yield self._taken()

    def _too_long(self, text: str) -> bool:
        # No tokenizer makes more tokens of a text than it has bytes.
        return len(text) * _UNMEASURED > self._most and self._measure(text) > self._most

    def _taken(self) -> str:
        passage, self._text = self._text[: self._end].strip(), self._text[self._end :]
        self._end = 0
        return passage.translate(_ONE_LINE)
