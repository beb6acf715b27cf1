"""The token vocabulary shared by the text frontend, the talker and the voice's training."""

from typing import NamedTuple

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
