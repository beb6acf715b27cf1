"""One token without digits as spoken words: case, contractions, compounds, acronyms."""

import re
from collections.abc import Callable

from ttsfamilies.base.text import abbreviations
from ttsfamilies.base.text.numbers import is_roman
from ttsfamilies.base.text.tables import collection

_PARTS = re.compile(r"[A-Za-z']+|[^A-Za-z']+")
_HUMPS = re.compile(
    r"[A-Z]{2,}s?(?![A-Za-z])|Ma?c[A-Z][a-z]+|[A-Z]{2,}(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+"
)
_DOTTED_LETTERS = re.compile(r"((?:[A-Za-z]\.){1,10}[A-Za-z]?)('s)?")
_ENDING = re.compile(r"'(?:s|ll|ve|d)$")
_REPEATED = re.compile(r"([a-z])\1{2,}")
_SYMBOL_NAMES = {"&": "and", "@": "at", "+": "plus", "=": "equals", "%": "percent", ".": "dot"}
_VOWEL = re.compile(r"[aeiouy]")
_UNSPEAKABLE = re.compile(r"[^aeiouy]{5}|^[^aeiouy]{4}")
_SYLLABLES = re.compile(r"[^aeiouy][aeiouy][^aeiouy]{1,2}(?:[aeiouy][^aeiouy]?)?")
_LONGEST_WORD = 60
_MOST_ENDINGS = 2
# Pairs that are said without the slash between them.
_PAIRS = collection(
    """
    and/or either/or he/she she/he his/her her/his him/her s/he she/her he/him they/them yes/no
    true/false on/off pass/fail read/write input/output client/server
    """
)
_LONGEST_PAIR = max(map(len, _PAIRS))
_INITIALS_PAIR = re.compile(r"[A-Z]{1,4}/[A-Z]{1,4}")


def letter(char: str) -> str:
    """The lexicon's word for a letter's name."""
    return "_a" if char in "aA" else char.lower()


def spell(text: str) -> list[str]:
    """The names of all letters in a text."""
    return [letter(char) for char in text if char.isalpha()]


class WordReader:
    """Turns written words into the lower-case words of the lexicon."""

    def __init__(self, knows: Callable[[str], bool]) -> None:
        self._knows = knows

    def read(self, core: str, shouting: bool = False) -> list[str]:
        """Spoken words of a token stripped of outer punctuation, in a shouted text or not."""
        short = abbreviations.WORDS.get(core)
        if short is not None:
            return short.split()
        if core.isalpha() and core.islower() and len(core) > 1 and self._knows(core):
            return [core]
        dotted = _DOTTED_LETTERS.fullmatch(core)
        if dotted is not None and len(core) > 2:
            return [*spell(dotted[1]), *(("'s",) if dotted[2] else ())]
        if "." in core and "-" in core:
            return [word for part in core.split("-") if part for word in self.read(part, shouting)]
        words: list[str] = []
        for part in _PARTS.findall(core):
            if part in abbreviations.COMPOUND_PARTS and part != core:
                words.append(abbreviations.COMPOUND_PARTS[part])
            elif part[0].isalpha() or part[0] == "'":
                words += self._contraction(part.strip("'"), shouting)
            elif part == "/":
                words += [] if _paired(core) else ["slash"]
            else:
                words += [name for name in map(_SYMBOL_NAMES.get, part) if name]
        return words

    def _contraction(self, text: str, shouting: bool) -> list[str]:
        """flite's way: "'s" and its like are words of their own, other apostrophes vanish."""
        endings: list[str] = []
        while "'" in text and not self._knows(text.lower()):
            ending = _ENDING.search(text.lower())
            if ending is None or len(endings) == _MOST_ENDINGS:
                text = _without_apostrophes(text)
            else:
                endings.append(ending[0])
                text = text[: ending.start()]
        if "'" in text:
            return [text.lower(), *reversed(endings)]
        return [*(self._case(text, shouting) if text else ()), *reversed(endings)]

    def _case(self, text: str, shouting: bool) -> list[str]:
        lower = text.lower()
        if len(text) == 1:
            return ["a"] if text == "a" else [letter(text)]
        if text.isupper():
            return [lower] if shouting and self._knows(lower) else self._capitals(text)
        if text[1:].islower() or self._knows(lower):
            return self._plain(lower)
        words: list[str] = []
        for hump in _HUMPS.findall(text):
            if len(hump) > 2 and hump[-1] == "s" and hump[:-1].isupper():
                words += [*self._capitals(hump[:-1]), "'s"]
            elif hump.isupper():
                words += self._capitals(hump) if len(hump) > 1 else [letter(hump)]
            else:
                words += self._plain(hump.lower())
        return words

    def _capitals(self, text: str) -> list[str]:
        lower = text.lower()
        if text in abbreviations.SPOKEN or text in abbreviations.SHOUTED:
            return [lower]
        if text in abbreviations.SPELLED or is_roman(text):
            return spell(text)
        if len(text) > 3 and self._knows(lower):
            return [lower]
        wordlike = speakable(lower) if len(text) > 4 else _SYLLABLES.fullmatch(lower)
        return [lower] if len(text) > 3 and wordlike else spell(text)

    def _is_word(self, lower: str) -> bool:
        return self._knows(lower) or lower in abbreviations.SOUNDS

    def _plain(self, lower: str) -> list[str]:
        if len(lower) == 1:
            return [letter(lower)]
        if self._is_word(lower):
            return [lower]
        for keep in (r"\1\1", r"\1"):
            shortened = _REPEATED.sub(keep, lower)
            if shortened != lower and self._is_word(shortened):
                return [shortened]
        lower = _REPEATED.sub(r"\1\1", lower)
        if len(lower) > _LONGEST_WORD:
            return [lower[i : i + 20] for i in range(0, len(lower), 20)]
        return [lower] if speakable(lower) else spell(lower)


def _paired(core: str) -> bool:
    return len(core) <= _LONGEST_PAIR and (
        core.lower() in _PAIRS or _INITIALS_PAIR.fullmatch(core) is not None
    )


def _without_apostrophes(text: str) -> str:
    """The lexicon has "dont" for "don't"; the capital in "O'Neil" begins no new word."""
    return text.replace("'", "") if text.isupper() else text.replace("'", "").capitalize()


def speakable(lower: str) -> bool:
    """Whether a lower-case string can be said as a word rather than spelled."""
    return _VOWEL.search(lower) is not None and (
        len(lower) > 7 or _UNSPEAKABLE.search(lower) is None
    )
