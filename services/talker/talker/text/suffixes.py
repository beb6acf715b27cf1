"""Regular endings: phones of "innately" from those of "innate"."""

from collections.abc import Callable

from talker.text.tables import collection

_SIBILANTS = collection("s z sh zh ch jh")
_VOICELESS = collection("p t k f th s sh ch")
_SHORTEST_STEM = 4

Phones = tuple[str, ...]


def _plural(stem: Phones) -> Phones | None:
    if stem[-1] in _SIBILANTS:
        return None
    return (*stem, "s" if stem[-1] in _VOICELESS else "z")


def _past(stem: Phones) -> Phones | None:
    if stem[-1] in ("t", "d"):
        return (*stem, "ax0", "d")
    return (*stem, "t" if stem[-1] in _VOICELESS else "d")


def _adverb(stem: Phones) -> Phones | None:
    return (*(stem[:-1] if stem[-1] == "l" else stem), "l", "iy0")


def _participle(stem: Phones) -> Phones | None:
    return (*stem, "ih0", "ng")


_ENDINGS: tuple[tuple[str, str, Callable[[Phones], Phones | None]], ...] = (
    ("s", "su", _plural),
    ("ed", "s", _past),
    ("ing", "s", _participle),
    ("ly", "i", _adverb),
    ("ness", "i", lambda stem: (*stem, "n", "ax0", "s")),
    ("less", "i", lambda stem: (*stem, "l", "ax0", "s")),
)
_VERBAL = ("ed", "ing")


def derived(
    word: str, entry: Callable[[str], str | None], knows: Callable[[str], bool]
) -> Phones | None:
    """Phones of a word whose stem has an entry, or None.

    A stem with an entry is one the letter-to-phone trees get wrong; left to themselves they
    would get its inflections wrong as well. Where two stems are possible ("ranged": "rang",
    "range") the trees decide. `entry` gives phones separated by spaces.
    """
    for ending, barred, join in _ENDINGS:
        stem = word[: -len(ending)]
        if not word.endswith(ending) or len(stem) < _SHORTEST_STEM or stem[-1] in barred:
            continue
        if ending in _VERBAL:
            if knows(stem + "e"):
                stem += "e"
                if knows(stem[:-1]):
                    continue
            elif stem[-1] == stem[-2]:
                continue
        phones = entry(stem)
        if phones is not None:
            return join(tuple(phones.split()))
    return None
