"""X-SAMPA, the IPA for keyboards (J. C. Wells, 1995), in the IPA's own symbols."""

from __future__ import annotations

from typing import Final

_SYMBOLS: Final = {
    **{same: same for same in "abcdefhijklmnopqrstuvwxyz"},
    "g": "ɡ", "A": "ɑ", "{": "æ", "6": "ɐ", "Q": "ɒ", "E": "ɛ", "@": "ə", "3": "ɜ", "I": "ɪ",
    "O": "ɔ", "2": "ø", "9": "œ", "&": "ɶ", "U": "ʊ", "}": "ʉ", "V": "ʌ", "Y": "ʏ", "1": "ɨ",
    "7": "ɤ", "8": "ɵ", "M": "ɯ", "B": "β", "C": "ç", "D": "ð", "F": "ɱ", "G": "ɣ", "H": "ɥ",
    "J": "ɲ", "K": "ɬ", "L": "ʎ", "N": "ŋ", "P": "ʋ", "R": "ʁ", "S": "ʃ", "T": "θ", "W": "ʍ",
    "X": "χ", "Z": "ʒ", "4": "ɾ", "5": "ɫ", "?": "ʔ",
    "@`": "ɚ", "3`": "ɝ", "r\\": "ɹ", "r\\`": "ɻ", "R\\": "ʀ", "I\\": "ᵻ", "h\\": "ɦ",
    "s\\": "ɕ", "z\\": "ʑ", "j\\": "ʝ", "p\\": "ɸ", "B\\": "ʙ", "G\\": "ɢ", "X\\": "ħ",
    "?\\": "ʕ", "@\\": "ɘ", "3\\": "ɞ", "x\\": "ɧ", "v\\": "ʋ", "l\\": "ɺ", "L\\": "ʟ",
    "t`": "ʈ", "d`": "ɖ", "n`": "ɳ", "s`": "ʂ", "z`": "ʐ", "l`": "ɭ", "r`": "ɽ",
    '"': "ˈ", "%": "ˌ", ":": "ː", ":\\": "ˑ", ".": ".", "=": "\u0329", "_=": "\u0329",
    "~": "\u0303", "_~": "\u0303", "_h": "ʰ", "_w": "ʷ", "_j": "ʲ", "'": "ʲ", "_G": "ˠ",
    "_^": "\u032f", "_0": "\u0325", "_d": "\u032a", "`": "˞", "-": "", " ": " ", "|": "|",
}  # fmt: skip
_LONGEST: Final = max(map(len, _SYMBOLS))


def to_ipa(phones: str) -> str:
    """'t@"meIt@U' -> "təˈmeɪtəʊ"; "" where a symbol is none of X-SAMPA's."""
    found, at = "", 0
    while at < len(phones):
        symbol = next(
            (
                phones[at : at + n]
                for n in range(_LONGEST, 0, -1)
                if phones[at : at + n] in _SYMBOLS
            ),
            None,
        )
        if symbol is None:
            return ""
        found += _SYMBOLS[symbol]
        at += len(symbol)
    return found
