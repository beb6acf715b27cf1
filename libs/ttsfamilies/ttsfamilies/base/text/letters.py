"""Phones of a word from its letters alone, by the decision trees flite applies itself."""

from collections.abc import Mapping, Sequence
from typing import Any

_LEAF = 255
_EDGE = "#"
_OUTSIDE = "0"


class LetterToPhone:
    """One binary tree per letter asks about its neighbours and answers with zero to two phones.

    The trees are flite's own (`cst_lts`), carried over with the lexicon: cmulex holds only the
    words they get wrong, so words in neither place come out as the voice's teacher said them.
    """

    def __init__(self, trees: Mapping[str, Any]) -> None:
        self._window: int = trees["window"]
        self._roots: Sequence[int] = trees["roots"]
        self._nodes: Sequence[int] = trees["nodes"]
        self._outputs = [tuple(output.split()) for output in trees["outputs"]]
        if len(self._roots) != 26 or len(self._nodes) % 4 or self._window < 1:
            raise ValueError("malformed letter-to-phone trees")

    def phones(self, word: str) -> tuple[str, ...]:
        """Phones with stress digits of a lower-case word; characters but a to z are silent."""
        outside = _OUTSIDE * (self._window - 1)
        padded = f"{outside}{_EDGE}{word}{_EDGE}{outside}"
        phones: list[str] = []
        for position, letter in enumerate(word, start=self._window):
            if "a" <= letter <= "z":
                context = (
                    padded[position - self._window : position]
                    + padded[position + 1 : position + 1 + self._window]
                )
                phones += self._outputs[self._leaf(ord(letter) - ord("a"), context)]
        return tuple(phones)

    def _leaf(self, letter: int, context: str) -> int:
        nodes = self._nodes
        node = 4 * self._roots[letter]
        while nodes[node] != _LEAF:
            matches = context[nodes[node]] == chr(nodes[node + 1])
            node = 4 * nodes[node + 2 if matches else node + 3]
        return nodes[node + 1]
