"""Regular endings: phones of "innately" from those of "innate"."""

import re
from collections.abc import Callable

from ttsfamilies.base.text.postlexical import is_vowel
from ttsfamilies.base.text.tables import collection

_SIBILANTS = collection("s z sh zh ch jh")
_VOICELESS = collection("p t k f th s sh ch")
_SHORTEST_STEM = 4
_SHORTEST_LISTED_STEM = 3

Phones = tuple[str, ...]


def _plural(stem: Phones, reduced: str | None) -> Phones | None:
    if stem[-1] in _SIBILANTS:
        return (*stem, reduced, "z") if reduced else None
    return (*stem, "s" if stem[-1] in _VOICELESS else "z")


def _past(stem: Phones, reduced: str | None) -> Phones | None:
    if stem[-1] in ("t", "d"):
        return (*(_flapped(stem) if reduced else stem), reduced or "ax0", "d")
    return (*stem, "t" if stem[-1] in _VOICELESS else "d")


def _adverb(stem: Phones, _reduced: str | None) -> Phones | None:
    return (*(stem[:-1] if stem[-1] == "l" else stem), "l", "iy0")


def _participle(stem: Phones, reduced: str | None) -> Phones | None:
    return (*(_flapped(stem) if reduced else stem), "ih0", "ng")


def _flapped(stem: Phones) -> Phones:
    """American English flaps a t between a vowel (or r) and an unstressed vowel."""
    opens = len(stem) > 1 and (is_vowel(stem[-2]) or stem[-2] == "r")
    return (*stem[:-1], "dx") if opens and stem[-1] == "t" else stem


_ENDINGS: tuple[tuple[str, str, Callable[[Phones, str | None], Phones | None]], ...] = (
    ("s", "su", _plural),
    ("ed", "s", _past),
    ("ing", "s", _participle),
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
    reduced: str | None = None,
) -> Phones | None:
    """Phones of a word whose stem has an entry, or None.

    A stem with an entry is one the letter-to-phone trees get wrong; left to themselves they
    would get its inflections wrong as well. Where two stems are possible ("ranged": "rang",
    "range") the trees decide. `entry` gives phones separated by spaces. `reduced`: the vowel of
    "wanted" and "wishes" in lexicons that have one of their own, and know more than the trees:
    there the spelling decides between two stems, and a t is flapped.
    """
    if reduced and word.endswith("ies") and (phones := entry(word[:-3] + "y")) is not None:
        return (*phones.split(), "z")
    shortest = _SHORTEST_STEM if reduced is None else _SHORTEST_LISTED_STEM
    for ending, barred, join in _ENDINGS:
        stem = word[: -len(ending)]
        if not word.endswith(ending) or len(stem) < shortest or stem[-1] in barred:
            continue
        if ending in _VERBAL:
            if knows(stem + "e"):
                stem += "e"
                if knows(stem[:-1]):
                    if reduced is None:
                        continue
                    stem = stem[:-1] if _PLAIN_STEM.search(stem) else stem
            elif stem[-1] == stem[-2]:
                continue
        phones = entry(stem)
        if phones is not None:
            return join(tuple(phones.split()), reduced)
    return None
