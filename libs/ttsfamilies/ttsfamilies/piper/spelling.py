"""The English frontend's phones in eSpeak's spelling, on which voices were trained.

eSpeak weakens sounds by their neighbours and joins some little words. The rules are those that took
most away of what the two differ in.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final, NamedTuple

from ttsfamilies.base.text.frontend import Utterance
from ttsfamilies.base.text.ipa import Phone
from ttsfamilies.base.text.lexicon import is_vowel
from ttsfamilies.base.text.rules import table

_FINAL_MARK: Final = "."
_STRESS: Final = {"1": "ˈ", "2": "ˌ", "0": ""}
_CONSONANTS: Final = table(
    "ch: tʃ, dh: ð, dx: ɾ, g: ɡ, hh: h, jh: dʒ, ng: ŋ, r: ɹ, sh: ʃ, th: θ, y: j, zh: ʒ"
)
_VOWELS: Final = table(
    """
    aa: ɑː, ae: æ, ah: ʌ, ao: ɔː, aw: aʊ, ax: ə, ay: aɪ, eh: ɛ, er: ɜː, ey: eɪ, ih: ɪ, iy: iː,
    ow: oʊ, oy: ɔɪ, uh: ʊ, uw: uː, ac: ɐ, ex: ə, ix: ᵻ, ur: ɚ
    """
)
# Without stress eSpeak has short ones; before an r it has no length where it has none by itself.
_WEAK: Final = {"er0": "ɚ", "iy0": "i"}
_BEFORE_THE: Final = ["of", "in", "on", "for", "from", "with", "was", "that"]
_TOGETHER: Final = {
    **{(first, "the"): ("", "") for first in _BEFORE_THE},
    ("for", "the"): ("fɚ", ""),
    ("on", "the"): ("ɔn", ""),
    ("of", "a"): ("əv", "ə"),
    ("of", "an"): ("əv", "ən"),
    ("for", "a"): ("fɚɹ", "ə"),
    ("for", "an"): ("fɚɹ", "ən"),
    ("at", "a"): ("æɾ", "ə"),
    ("not", "a"): ("nˌɑːɾ", "ə"),
    ("out", "of"): ("ˌaʊɾ", "əv"),
    ("to", "be"): ("tə", "bi"),
    ("has", "been"): ("hɐz", "bɪn"),
    ("have", "been"): ("hɐv", "bɪn"),
    ("had", "been"): ("hɐd", "bɪn"),
}
"""Words that are said as one, and how each is then said, where that is otherwise than alone."""
_PREFIXES: Final = ("be", "de", "re")
# Without secondary stress.
_LIGHT: Final = "i'"
_DAYS: Final = ("day", "days", "body", "i")
_SHORT_ENDS: Final = ("et", "ets", "ute", "utes")


class Spelt(NamedTuple):
    """A spoken word, or with no phones a mark. owner: the written word that it is of."""

    owner: int
    written: str
    phones: tuple[str, ...]


def spoken_words(utterance: Utterance) -> Iterator[Spelt]:
    """In the order that they are said in, without the silence at the beginning."""
    number = 0

    def of(phone: Phone) -> int:
        nonlocal number
        number += phone.initial or phone.word < 0
        return number

    for _, group in groupby(utterance.phones[1:], of):
        phones = list(group)
        owner = phones[0].word
        if owner < 0:
            yield Spelt(owner, "", ())
            continue
        written = utterance.words[owner].text.strip(".,;:!?\"'()—").lower()
        yield Spelt(owner, written, tuple(phone.symbol for phone in phones))


def spelt_words(utterance: Utterance) -> Iterator[tuple[int, str, bool]]:
    """The owner of each word, its symbols, and whether it stands apart from the one before; a mark
    has the owner -1.
    """
    marks = iter((*utterance.marks[:-1], utterance.marks[-1] or _FINAL_MARK))
    nothing = Spelt(-1, "", ())
    words = [nothing, *spoken_words(utterance), nothing]
    for before, word, after in zip(words, words[1:], words[2:], strict=False):
        if not word.phones:
            mark = next(marks)
            yield -1, "," if mark == "—" else mark, False
            continue
        joined = _TOGETHER.get((before.written, word.written))
        joins = _TOGETHER.get((word.written, after.written))
        said = (joins[0] if joins else "") or (joined[1] if joined else "")
        yield word.owner, said or spelling(word, after), joined is None


def spelling(word: Spelt, after: Spelt) -> str:
    """A word's symbols, before another."""
    phones = (*word.phones, *after.phones[:1], "")
    return "".join(_sound(word, at, phones) for at in range(len(word.phones)))


def _sound(word: Spelt, at: int, phones: tuple[str, ...]) -> str:
    """phones: the word's, the next one's first, and nothing."""
    phone, following = phones[at], phones[at + 1]
    plain = symbols_of(phone)
    alone = sum(map(is_vowel, word.phones)) == 1
    if phone[-1] == "2" and (word.written.startswith(_LIGHT) or word.written.endswith(_DAYS)):
        plain = plain[1:]
    if phone in ("er0", "ur0") and alone:
        plain = "ɜː"
    if phone[:-1] in ("er", "ur") and following and is_vowel(following):
        return plain + "ɹ"
    if phone[:-1] == "ao" and _is_short(word, at):
        return plain.removesuffix("ː")
    if phone == "iy0" and alone:
        return "ɪ" if word.written == "the" else "iː"
    if at == 1 and phone in ("ax0", "iy0", "ih0") and word.written.startswith(_PREFIXES):
        return "ɪ" if following in ("g", "k") else "ᵻ"
    if phone != "ax0":
        return plain
    if not at and len(word.phones) > 1:
        return "ɐ"
    return "ɪ" if following == "t" and word.written.endswith(_SHORT_ENDS) else plain


def _is_short(word: Spelt, at: int) -> bool:
    """Whether an open o is short: "off", "long", "salt", but not "call" and not "thought"."""
    behind = word.phones[at + 1 : at + 3]
    if word.written in ("on", "upon", "gone") or behind[:1] in (("f",), ("ng",), ("s",), ("th",)):
        return True
    return behind in (("l", "t"), ("l", "s"))


def symbols_of(phone: str) -> str:
    """eSpeak's of one phone: "ow1" is "ˈoʊ"."""
    if phone in _WEAK:
        return _WEAK[phone]
    if phone[:-1] in _VOWELS and phone[-1] in _STRESS:
        return _STRESS[phone[-1]] + _VOWELS[phone[:-1]]
    return _CONSONANTS.get(phone, phone)
