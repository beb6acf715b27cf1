"""Changes that words make to each other's phones: "the apple", "Rick's", "it'd"."""

from collections.abc import Sequence

from ttsfamilies.base.text.tables import collection

VOWELS = collection("aa ac ae ah ao aw ax ay eh er ex ey ih ix iy ow oy uh ur uw")
_SIBILANTS = collection("s z sh zh ch jh")
_VOICELESS = collection("p t k f th s sh ch hh")
_FULL_TO = ("t", "uw0")
_SHORT_FORMS = frozenset(("'ve", "'ll", "'d"))


def is_vowel(phone: str) -> bool:
    """Whether a phone, with or without its stress digit, is a vowel."""
    return phone.rstrip("012") in VOWELS


def join(words: Sequence[str], phones: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
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
