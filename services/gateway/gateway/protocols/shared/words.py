"""Timed words: as our own protocols tell them, and the text around them."""

from __future__ import annotations

import re
from typing import Any, Final

from ttscommon.wire.messages import WordTime

# Markup is no part of what is read.
_MARKUP: Final = re.compile(r"<[^>]*>|\\[{}]|[<>]")


class WrittenText:
    """What is written between the words of a text, which are timed one after another.

    text: the whole text, where it is known; else one space stands between two words.
    """

    def __init__(self, text: str | None) -> None:
        self._text = text
        self._said = 0
        self._begun = False

    def before(self, word: WordTime) -> str:
        """What is written in front of a word, and was not told yet; the word is told now."""
        plain = " " if self._begun else ""
        self._begun = True
        text, said = self._text, self._said
        if text is None:
            return plain
        if word.first < said or text[word.first : word.last] != word.word:
            self._text = ""  # its places are not known: from here on words are all there is
            return plain
        self._said = word.last
        between = text[said : word.first]
        return without_markup(between) or (plain if between else "")

    def rest(self) -> str:
        """What is written behind the last word; nothing where the text is not known."""
        return without_markup((self._text or "")[self._said :])


def without_markup(text: str) -> str:
    """What of a text is read."""
    return _MARKUP.sub("", text)


def timed(word: WordTime) -> dict[str, Any]:
    """Its times; what it is read as, and its place in the request's text, where they are known."""
    told: dict[str, Any] = {
        "word": word.word,
        "start_s": round(word.start_s, 4),
        "end_s": round(word.end_s, 4),
    }
    if word.spoken:
        told["spoken"] = word.spoken
    if word.first >= 0:
        told |= {"start_char": word.first, "end_char": word.last}
    return told
