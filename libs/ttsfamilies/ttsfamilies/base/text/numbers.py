"""Names of numbers in American English: cardinals, ordinals, years, decimals, digits, fractions.

Every function takes ASCII digits and returns lower-case words without hyphens.
"""

import re
from collections.abc import Sequence

from ttsfamilies.base.text.rules import Rule, listing, rule

_UNITS = listing(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen
    """
)
_TENS = listing(". . twenty thirty forty fifty sixty seventy eighty ninety")
_SCALES = (
    "",
    "thousand",
    "million",
    "billion",
    "trillion",
    "quadrillion",
    "quintillion",
    "sextillion",
    "septillion",
)
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_DENOMINATORS = {2: "half", 4: "quarter"}
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_ROMAN_SHAPE = re.compile(r"M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})")
_LONGEST_NAMED = 3 * len(_SCALES)
_INDIAN = re.compile(r"\d{1,2}(?:,\d\d)+,\d{3}")
_SEPARATORS = str.maketrans("", "", ",' ")
_BELOW_HUNDRED = frozenset((*_UNITS[1:], *_TENS[2:]))


def _below_thousand(value: int) -> list[str]:
    words = []
    if value >= 100:
        words += [_UNITS[value // 100], "hundred"]
        value %= 100
    if value >= 20:
        words.append(_TENS[value // 10])
        value %= 10
        if not value:
            return words
    if value or not words:
        words.append(_UNITS[value])
    return words


def digits(text: str) -> list[str]:
    """Digit by digit: "007" is "zero zero seven"; other characters are skipped."""
    return [_UNITS[ord(char) - ord("0")] for char in text if "0" <= char <= "9"]


def cardinal(text: str) -> list[str]:
    """A whole number, with , ' or a space between thousands, or in India's groups of two digits.

    More digits than have a name are read one by one.
    """
    if _INDIAN.fullmatch(text):
        return _indian(text.translate(_SEPARATORS))
    text = text.translate(_SEPARATORS).lstrip("0")
    if not text:
        return ["zero"]
    if len(text) > _LONGEST_NAMED:
        return digits(text)
    words: list[str] = []
    for scale in range((len(text) - 1) // 3, -1, -1):
        end = len(text) - 3 * scale
        group = int(text[max(0, end - 3) : end])
        if group:
            words += _below_thousand(group)
            if scale:
                words.append(_SCALES[scale])
    return words


def _indian(text: str) -> list[str]:
    """In crores (ten millions) and lakhs (hundred thousands)."""
    words: list[str] = []
    for digits_of, scale in ((text[:-7], "crore"), (text[-7:-5], "lakh")):
        if digits_of.strip("0"):
            words += [*cardinal(digits_of), scale]
    rest = text[-5:]
    return words + cardinal(rest) if rest.strip("0") or not words else words


def _ordinal_word(word: str) -> str:
    if word in _ORDINALS:
        return _ORDINALS[word]
    return word[:-1] + "ieth" if word.endswith("y") else word + "th"


def ordinal(text: str) -> list[str]:
    """The ordinal of a whole number: "22" is "twenty second"."""
    words = cardinal(text)
    return [*words[:-1], _ordinal_word(words[-1])]


def pair(value: int) -> list[str]:
    """Two digits as in a year or a clock: 5 is "oh five", 30 is "thirty"."""
    return _below_thousand(value) if value >= 10 else ["oh", _UNITS[value]]


def year(text: str) -> list[str]:
    """A year of four digits as it is said: "1905", "2000", "2007", "2024"."""
    value = int(text)
    century, rest = divmod(value, 100)
    if len(text) != 4 or value % 1000 < 10 or century < 10:
        return cardinal(text)
    if not rest:
        return [*_below_thousand(century), "hundred"]
    return [*_below_thousand(century), *pair(rest)]


def decade(text: str) -> list[str]:
    """The plural of a year or of its last two digits: "1990" is "nineteen nineties"."""
    words = year(text) if len(text) == 4 else cardinal(text)
    last = words[-1]
    plural = last[:-1] + "ies" if last.endswith("y") else last + ("es" if last == "six" else "s")
    return [*words[:-1], plural]


def decimal(text: str) -> list[str]:
    """A number with an optional fraction after a point: "3.14", "1,000.5", ".5"."""
    whole, point, fraction = text.partition(".")
    words = cardinal(whole) if whole else ([] if fraction else ["zero"])
    return [*words, "point", *digits(fraction)] if point and fraction else words


def fraction(numerator: str, denominator: str) -> list[str]:
    """A vulgar fraction: "3", "4" is "three quarters"; "1", "0" is read with "over"."""
    count, parts = int(numerator), int(denominator)
    if parts < 2:
        return [*cardinal(numerator), "over", *cardinal(denominator)]
    name = [_DENOMINATORS[parts]] if parts in _DENOMINATORS else ordinal(denominator)
    if count != 1:
        name[-1] = "halves" if name[-1] == "half" else name[-1] + "s"
    return [*cardinal(numerator), *name]


def is_roman(text: str) -> bool:
    """Whether capital letters are a well-formed Roman numeral below 4000."""
    return bool(text) and _ROMAN_SHAPE.fullmatch(text) is not None


def roman(text: str) -> int:
    """The value of a Roman numeral in capitals."""
    total = 0
    for char, following in zip(text, [*text[1:], "I"], strict=True):
        value = _ROMAN[char]
        total += -value if value < _ROMAN[following] else value
    return total


def british(words: Sequence[str]) -> list[str]:
    """A number as it is said in Britain: "one hundred and five", "two thousand and one"."""
    said: list[str] = []
    for index, word in enumerate(words):
        follows = said[-1] if said else ""
        small = word in _BELOW_HUNDRED and "hundred" not in words[index : index + 2]
        if small and (follows == "hundred" or (follows in _SCALES[1:] and _ends(words, index))):
            said.append("and")
        said.append(word)
    return said


def _ends(words: Sequence[str], index: int) -> bool:
    """Whether the words from an index on are the last ones below a hundred of a number."""
    rest = words[index : index + 3]
    return not any(word == "hundred" or word in _SCALES[1:] for word in rest)


def room(text: str) -> list[str]:
    """Three to five digits in pairs, as in house numbers: "101" is "one oh one"."""
    if len(text) > 4:
        return [*cardinal(text[:-4]), *pair(int(text[-4:-2])), *pair(int(text[-2:]))]
    if len(text) < 3 or text.endswith("000"):
        return cardinal(text)
    tail = int(text[-2:])
    return [*cardinal(text[:-2]), *(pair(tail) if tail else ["hundred"])]


def label(text: str) -> list[str]:
    """Digits in a name: a year, a small number, or digit by digit."""
    if len(text) == 4 and text[0] in "12":
        return year(text)
    return cardinal(text) if len(text) < 4 and text[0] != "0" else digits(text)


# Roman numerals that their own shape or the word beside them makes certain.


_YEARS = range(1000, 2100)


def _listed(match: re.Match[str]) -> list[str]:
    """ "(iv)", as in a list."""
    return cardinal(str(roman(match["roman"].upper())))


def _long(match: re.Match[str]) -> list[str] | None:
    """Four letters or more that no word has: a year such as MCMXCIX, or a number."""
    text = match["roman"]
    if not is_roman(text):
        return None
    value = roman(text)
    return year(str(value)) if value in _YEARS else cardinal(str(value))


def _century(match: re.Match[str]) -> list[str] | None:
    text = match["roman"]
    return ordinal(str(roman(text))) if is_roman(text) else None


ROMANS: tuple[Rule, ...] = (
    rule(
        r"(?<=\()(?<!\w\()(?P<roman>i{2,3}|iv|vi{1,3}|ix|xi{0,3}|xiv|xvi{0,3})(?=\))",
        _listed,
        needs="(",
    ),
    rule(r"(?<!\w)(?P<roman>[IVX]{1,6})(?:th)?(?= [Cc]entur)", _century, literal="entur"),
    rule(r"(?<![\w.-])(?P<roman>M[MDCLXVI]{4,14}|X[LXVI]{3,7})(?![\w-])", _long, needs="MX"),
)
