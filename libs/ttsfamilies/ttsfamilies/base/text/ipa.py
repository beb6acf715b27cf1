"""The phones of the frontend, the talker and the voice's training, and IPA in them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

from ttscommon.wire.errors import BadRequest

# The token vocabulary shared by the text frontend, the talker and the voice's training.


PAD = "<pad>"
PAUSE = "pau"

CONSONANTS = (
    *("b", "ch", "d", "dh", "f", "g", "hh", "jh", "k", "l", "m", "n", "ng"),
    *("p", "r", "s", "sh", "t", "th", "v", "w", "y", "z", "zh"),
)
VOWELS = (
    *("aa", "ae", "ah", "ao", "aw", "ax", "ay", "eh", "er"),
    *("ey", "ih", "iy", "ow", "oy", "uh", "uw"),
)

SYMBOLS: tuple[str, ...] = (
    PAD,
    PAUSE,
    *CONSONANTS,
    *(vowel + stress for vowel in VOWELS for stress in "01"),
)
SYMBOL_IDS: dict[str, int] = {symbol: index for index, symbol in enumerate(SYMBOLS)}


class Phone(NamedTuple):
    """One phone of an utterance.

    symbol: an entry of SYMBOLS (vowels carry their stress digit, 0 or 1).
    word: index of the word in the utterance, -1 for a pause.
    initial: whether the phone begins its word.
    """

    symbol: str
    word: int
    initial: bool


# The International Phonetic Alphabet in the frontend's phones (General American).
#
# Read are the symbols of English dictionaries, of eSpeak and of misaki, and for sounds that
# English lacks the ones its speakers say instead ("x" is k). Length, ties and other diacritics
# change nothing; a stress mark is its next vowel's.


_STRESS: Final = {"ˈ": "1", "'": "1", "ˌ": "2", ",": "2"}
_SYLLABIC: Final = "\u0329"
_CEDILLA: Final = "c\u0327"
# They may stand anywhere and say nothing about a phone.
_IGNORED: Final = frozenset(" ːˑ.‿-|‖/[]()ʰʲʷˠ˞ʼ")

# Phones, and what they are written as; behind a bar the sounds that English lacks.
_WRITTEN: Final = {
    "b": "b",
    "d": "d | ɖ",
    "f": "f | ɸ",
    "g": "ɡ g | ɣ",
    "k": "k | x χ c q",
    "l": "l ɫ",
    "m": "m",
    "n": "n",
    "p": "p",
    "s": "s",
    "t": "t ɾ T ʔ | ʈ",
    "v": "v | β ʋ",
    "w": "w ʍ",
    "z": "z",
    "hh": "h | ç ɦ ħ",
    "r": "ɹ r | ɻ ʁ ʀ",
    "y": "j",
    "ng": "ŋ",
    "dh": "ð",
    "th": "θ",
    "sh": "ʃ | ɕ ʂ",
    "zh": "ʒ | ʑ ʐ",
    "ch": "tʃ ʧ | tɕ",
    "jh": "dʒ ʤ",
    "n y": "ɲ",
    "l y": "ʎ",
    "aa": "ɑ ɒ a",
    "ae": "æ",
    "ah": "ʌ ɐ | ɤ",
    "ao": "ɔ",
    "ax": "ə ᵊ",
    "eh": "ɛ e",
    "er": "ɝ ɚ ɜ ɜɹ ɜr ɜːɹ ɜːr əɹ ər | ø œ",
    "ih": "ɪ ɨ ᵻ",
    "iy": "i",
    "uh": "ʊ | ɵ",
    "uw": "u ʉ | y",
    "ow": "oʊ əʊ O o",
    "ey": "eɪ A eː",
    "ay": "aɪ I",
    "aw": "aʊ W",
    "oy": "ɔɪ Y",
}
_PHONES: Final = {
    symbol: phones
    for phones, written in _WRITTEN.items()
    for symbol in written.replace("|", "").split()
}
_LONGEST: Final = max(map(len, _PHONES))


def phones_of(ipa: str) -> list[str]:
    """ "təˈmeɪtoʊ" -> ["t", "ax0", "m", "ey1", "t", "ow0"].

    A word of one vowel is stressed, and so is the first full vowel where no mark is. Raises
    BadRequest for a symbol that is none, or if there is no phone.
    """
    found: list[tuple[str, str]] = []
    stress = ""
    for symbol in _symbols(ipa):
        if symbol in _STRESS:
            stress = _STRESS[symbol]
            continue
        for phone in _PHONES[symbol].split():
            vowel = phone not in CONSONANTS
            found.append((phone, (stress or "0") if vowel else ""))
            stress = "" if vowel else stress
    if not found:
        raise BadRequest("there is no phone", param="phones")
    return [_stressed(phone, digit) for phone, digit in _with_a_stress(found)]


def _symbols(ipa: str) -> Iterator[str]:
    """Keys of _PHONES and _STRESS, the longest that fit."""
    text = _plain(ipa)
    at = 0
    while at < len(text):
        for length in range(min(_LONGEST, len(text) - at), 0, -1):
            symbol = text[at : at + length]
            if symbol in _PHONES or symbol in _STRESS:
                yield symbol
                break
        else:
            if text[at] not in _IGNORED:
                raise BadRequest(f"there is no sound {text[at]!r} here", param="phones")
            length = 1
        at += length


def _plain(ipa: str) -> str:
    """Without diacritics; a syllabic consonant gets a vowel of its own."""
    plain = ""
    for char in unicodedata.normalize("NFD", ipa).replace(_CEDILLA, "ç"):
        if char == _SYLLABIC:
            plain = f"{plain[:-1]}ə{plain[-1:]}"
        elif not unicodedata.combining(char):
            plain += char
    return plain


def _with_a_stress(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    vowels = [index for index, (_, digit) in enumerate(found) if digit]
    if not vowels or any(found[index][1] in "12" for index in vowels):
        return found
    full = [index for index in vowels if found[index][0] != "ax"]
    first = (full or vowels)[0]
    return [(phone, "1" if index == first else digit) for index, (phone, digit) in enumerate(found)]


def _stressed(phone: str, digit: str) -> str:
    """A vowel with its digit; a schwa that is stressed is a full vowel."""
    if phone == "ax" and digit in ("1", "2"):
        phone = "ah"
    return phone + digit
