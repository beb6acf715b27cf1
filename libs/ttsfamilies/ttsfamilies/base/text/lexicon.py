"""The pronunciation lexicon: words to phones, and what words change in each other."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ttscommon.wire.errors import VoiceError
from ttsfamilies.base.text.heteronyms import PHONES, choose
from ttsfamilies.base.text.rules import collection

VOWELS = collection("aa ac ae ah ao aw ax ay eh er ex ey ih ix iy ow oy uh ur uw")
_SIBILANTS = collection("s z sh zh ch jh")
_VOICELESS = collection("p t k f th s sh ch hh")
_FULL_TO = ("t", "uw0")
_SHORT_FORMS = frozenset(("'ve", "'ll", "'d"))


def is_vowel(phone: str) -> bool:
    """Whether a phone, with or without its stress digit, is a vowel."""
    return phone.rstrip("012") in VOWELS


def post_lexical(words: Sequence[str], phones: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Apply flite's post-lexical rules (`cmu_postlex`) to the phones of consecutive words.

    "'s" agrees with the sound before it, "'ve", "'ll" and "'d" take a schwa after a consonant,
    "the" ends in "iy" before a vowel. A "to" that the lexicon gives in full ("t uw0") is reduced
    before another word.
    """
    joined = list(phones)
    for index, word in enumerate(words):
        before = joined[index - 1][-1] if index and joined[index - 1] else None
        if word == "'s" and before in _SIBILANTS:
            joined[index] = ("ax0", *joined[index])
        elif word == "'s" and before in _VOICELESS:
            joined[index] = ("s",)
        elif word in _SHORT_FORMS and before is not None and not is_vowel(before):
            joined[index] = ("ax0", *joined[index])
    for index, word in enumerate(words[:-1]):
        following = joined[index + 1]
        if word == "the" and following and is_vowel(following[0]):
            joined[index] = tuple("iy" + p[2:] if p.startswith("ax") else p for p in joined[index])
        elif joined[index] == _FULL_TO and following:
            joined[index] = ("t", "uh0" if is_vowel(following[0]) else "ax0")
    return joined


Phones = tuple[str, ...]
_CONTENT = "content"
_NO_WORD = "0"


class Tagger:
    """flite's tagging tree, for words that sound different as noun, verb or adjective.

    It looks at two words on either side and at closed-class words.
    """

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


# Regular endings: phones of "innately" from those of "innate".


_SHORTEST_STEM = 3


def _plural(stem: Phones, reduced: str) -> Phones:
    if stem[-1] in _SIBILANTS:
        return (*stem, reduced, "z")
    return (*stem, "s" if stem[-1] in _VOICELESS else "z")


def _past(stem: Phones, reduced: str) -> Phones:
    if stem[-1] in ("t", "d"):
        return (*_flapped(stem), reduced, "d")
    return (*stem, "t" if stem[-1] in _VOICELESS else "d")


def _adverb(stem: Phones, _reduced: str) -> Phones:
    return (*(stem[:-1] if stem[-1] == "l" else stem), "l", "iy0")


def _flapped(stem: Phones) -> Phones:
    """American English flaps a t between a vowel (or r) and an unstressed vowel."""
    opens = len(stem) > 1 and (is_vowel(stem[-2]) or stem[-2] == "r")
    return (*stem[:-1], "dx") if opens and stem[-1] == "t" else stem


_ENDINGS: tuple[tuple[str, str, Callable[[Phones, str], Phones]], ...] = (
    ("s", "su", _plural),
    ("ed", "s", _past),
    ("ing", "s", lambda stem, _: (*_flapped(stem), "ih0", "ng")),
    ("ly", "i", _adverb),
    ("ness", "i", lambda stem, _: (*stem, "n", "ax0", "s")),
    ("less", "i", lambda stem, _: (*stem, "l", "ax0", "s")),
)
_VERBAL = ("ed", "ing")
_PLAIN_STEM = re.compile(r"[aeiou]{2}[^aeiou]e$")


def derived(
    word: str,
    entry: Callable[[str], str | None],
    knows: Callable[[str], bool],
    reduced: str,
) -> Phones | None:
    """Phones of a word whose stem has an entry, or None.

    `entry` gives phones separated by spaces. `reduced`: the vowel of "wanted" and "wishes". Where
    two stems are possible ("ranged": "rang", "range") the spelling decides.
    """
    if word.endswith("ies") and (phones := entry(word[:-3] + "y")) is not None:
        return (*phones.split(), "z")
    for ending, barred, join in _ENDINGS:
        stem = word[: -len(ending)]
        if not word.endswith(ending) or len(stem) < _SHORTEST_STEM or stem[-1] in barred:
            continue
        if ending in _VERBAL:
            if knows(stem + "e"):
                plain = knows(stem) and _PLAIN_STEM.search(stem + "e")
                stem += "" if plain else "e"
            elif stem[-1] == stem[-2]:
                continue
        phones = entry(stem)
        if phones is not None:
            return join(tuple(phones.split()), reduced)
    return None


# Phones of a word from its letters alone, by the decision trees flite applies itself.


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


FILE_NAME = "lexicon.json.gz"
_FORMAT = 1
_CACHE_LIMIT = 50_000
_PHRASE_END = "end"


class LexiconError(VoiceError):
    """The lexicon file is missing, damaged or of another format."""


class Lexicon:
    """Phones with stress digits ("hh ax0 l ow1") of any word.

    Looked up in this order: heteronyms by the words near them, homographs by part of speech (or the
    end of a phrase), entries, regular inflections of entries, letter-to-phone trees. What was found
    is remembered, up to a limit.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        if content.get("format") != _FORMAT:
            raise LexiconError(f"lexicon format {content.get('format')!r} is not {_FORMAT}")
        self._words: Mapping[str, str] = content["words"]
        self._homographs: Mapping[str, Mapping[str, str]] = content["homographs"]
        self._reduced: str = content["reduced_vowel"]
        self._letters = LetterToPhone(content["letters"])
        self._tagger = Tagger(content["tagger"], content["function_words"])
        self._cache: dict[str, Phones] = {}

    @classmethod
    def load(cls, voice_dir: Path) -> Lexicon:
        """Read the lexicon of a voice folder. Raises LexiconError."""
        try:
            return cls(json.loads(gzip.decompress((voice_dir / FILE_NAME).read_bytes())))
        except (OSError, EOFError, zlib.error, ValueError, KeyError) as error:
            raise LexiconError(
                f"cannot load {voice_dir / FILE_NAME}, by which English is read: {error}"
            ) from error

    def knows(self, word: str) -> bool:
        """Whether a lower-case word is an English word on record."""
        return word in self._words or word in PHONES or word in self._homographs

    def phones(self, words: Sequence[str], index: int, *, last: bool = False) -> Phones:
        """Phones of `words[index]`, which is lower case, in its context.

        last: whether its phrase ends with it. Some function words have a full form there.
        """
        word = words[index]
        chosen = choose(words, index)
        if chosen is not None:
            return chosen
        readings = self._homographs.get(word)
        if readings is not None:
            full = last and _PHRASE_END in readings
            tag = _PHRASE_END if full else self._tagger.tag(words, index)
            return tuple((readings.get(tag) or next(iter(readings.values()))).split())
        phones = self._cache.get(word)
        if phones is None:
            phones = self._pronounce(word)
            if len(self._cache) >= _CACHE_LIMIT:
                self._cache.clear()
            self._cache[word] = phones
        return phones

    def _pronounce(self, word: str) -> Phones:
        entry = PHONES.get(word) or self._words.get(word)
        if entry is not None:
            return tuple(entry.split())
        found = derived(word, self._stem, self.knows, self._reduced)
        return found or self._letters.phones(word)

    def _stem(self, word: str) -> str | None:
        """An entry to be inflected; of several readings the verb's, as in "lived"."""
        readings = self._homographs.get(word)
        if readings is None:
            return self._words.get(word)
        return readings.get("v") or next(iter(readings.values()))
