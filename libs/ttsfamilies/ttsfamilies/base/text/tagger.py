"""A part-of-speech tag for words that sound different as noun, verb or adjective."""

from collections.abc import Mapping, Sequence
from typing import Any

_CONTENT = "content"
_NO_WORD = "0"


class Tagger:
    """flite's tagging tree. It looks at two words on either side and at closed-class words."""

    def __init__(self, nodes: Sequence[Sequence[Any]], function_words: Mapping[str, str]) -> None:
        self._nodes = nodes
        self._function_words = function_words

    def tag(self, words: Sequence[str], index: int) -> str:
        """The tag ("n", "v", "j", "r" or "0") of `words[index]`; words are lower case."""
        node = 0
        while len(self._nodes[node]) > 1:
            feature, value, otherwise = self._nodes[node]
            node = node + 1 if self._feature(feature, words, index) == value else otherwise
        return str(self._nodes[node][0])

    def _feature(self, name: str, words: Sequence[str], index: int) -> str:
        *steps, kind = name.split(".")
        for step in steps:
            index += 1 if step == "n" else -1
        if not 0 <= index < len(words):
            return _NO_WORD
        word = words[index]
        return word if kind == "name" else self._function_words.get(word, _CONTENT)
