"""Phones in misaki's symbols, which the vesper voice reads (as Kokoro does; Apache-2.0).

An utterance becomes tokens: silence, then one token for each symbol, then silence. Stress marks
stand right before their vowel; spaces between words and punctuation are tokens as well.

Phones beyond those of `symbols` come from the voice's own lexicon: `dx` a flapped t,
`ex`, `ix` and `ac` reduced vowels, `ur` an r-coloured vowel in a word without stress, and 2 as the
digit of secondary stress.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ttsfamilies.base.text.frontend import Utterance, Word, cut_words
from ttsfamilies.base.text.rules import table

SILENCE: Final = 0
TOKENS: Final = dict(
    zip(
        " ;:,.!?—AIOSTWYbdfhijklmnpstuvwzæðŋɑɐɔəɛɜɡɪɹʃʊʌʒʤʧˈˌθᵊᵻ",
        (
            *(16, 1, 2, 3, 4, 5, 6, 9, 24, 25, 31, 35, 36, 39, 41, 44, 46, 48, 50, 51, 52, 53, 54),
            *(55, 56, 58, 61, 62, 63, 64, 65, 68, 72, 81, 112, 69, 70, 76, 83, 86, 87, 92, 102),
            *(123, 131, 135, 138, 147, 82, 133, 156, 157, 119, 42, 177),
        ),
        strict=True,
    )
)
"""Token of each symbol."""
SYMBOLS: Final = {token: symbol for symbol, token in TOKENS.items()}

_STRESS: Final = {"1": "ˈ", "2": "ˌ"}
_VOWELS: Final = table(
    """
    aa: ɑ, ae: æ, ah: ʌ, ao: ɔ, aw: W, ax: ə, ay: I, eh: ɛ, er: ɜɹ, ey: A, ih: ɪ, iy: i, ow: O,
    oy: Y, uh: ʊ, uw: u, ac: ɐ, ex: ᵊ, ix: ᵻ, ur: ɜɹ
    """
)
_CONSONANTS: Final = {
    **table("ch: ʧ, dh: ð, dx: T, g: ɡ, hh: h, jh: ʤ, ng: ŋ, r: ɹ, sh: ʃ, th: θ, y: j, zh: ʒ"),
    **{same: same for same in "bdfklmnpstvwz"},
}
_FINAL_MARK: Final = "."


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the talker reads: token ids with silence at both ends.

    `words` are the utterance's, with the tokens `ids[start:end]` of each.
    """

    ids: tuple[int, ...]
    words: tuple[Word, ...]


def symbols_of(phone: str) -> str:
    """misaki's symbols of one phone: "ow1" -> "ˈO". Raises KeyError for an unknown phone."""
    if phone in _CONSONANTS:
        return _CONSONANTS[phone]
    vowel, digit = phone[:-1], phone[-1]
    if phone == "er0":
        return "əɹ"
    return _STRESS.get(digit, "") + _VOWELS[vowel]


def tokens_of(utterance: Utterance) -> Tokens:
    """The tokens of an utterance. A text without a final mark is read as if it had a full stop."""
    ids = [SILENCE]
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    marks = iter((*utterance.marks[:-1], utterance.marks[-1] or _FINAL_MARK))
    for phone in utterance.phones[1:]:
        if phone.word < 0:
            ids.append(TOKENS[next(marks)])
            continue
        if phone.initial and len(ids) > 1:
            ids.append(TOKENS[" "])
        starts.setdefault(phone.word, len(ids))
        ids += [TOKENS[symbol] for symbol in symbols_of(phone.symbol)]
        ends[phone.word] = len(ids)
    words = tuple(
        word._replace(start=starts[index], end=ends[index])
        for index, word in enumerate(utterance.words)
    )
    return Tokens((*ids, SILENCE), words)


def in_parts(tokens: Tokens, most: int) -> Iterator[Tokens]:
    """The same as pieces of at most `most` tokens, cut between words where that is possible.

    Each has silence at both ends; a word belongs to the piece that it begins in.
    """
    start, last = 1, len(tokens.ids) - 1
    while last - start > most - 2:
        spaces = [i for i in range(start + 1, start + most - 1) if tokens.ids[i] == TOKENS[" "]]
        cut = spaces[-1] if spaces else start + most - 2
        yield _part(tokens, start, cut)
        start = cut + 1 if spaces else cut
    yield _part(tokens, start, last)


def _part(tokens: Tokens, start: int, end: int) -> Tokens:
    """Tokens start .. end, and the words that begin there."""
    words = cut_words(tokens.words, start, end, start - 1)
    return Tokens((SILENCE, *tokens.ids[start:end], SILENCE), words)
