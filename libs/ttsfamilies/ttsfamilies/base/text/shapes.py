"""Shapes of numbers in running text, and how a match of those shapes is said.

Patterns that use NUMBER have a group "number", RANGE has "low" and "high", SCALE "scale" or "mark".
"""

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.rules import alternatives

SCALES = {
    **{name: name for name in ("hundred", "thousand", "million", "billion", "trillion")},
    "lakh": "lakh",
    "lakhs": "lakh",
    "crore": "crore",
    "crores": "crore",
    "k": "thousand",
    "K": "thousand",
    "M": "million",
    "m": "million",
    "mn": "million",
    "B": "billion",
    "bn": "billion",
    "b": "billion",
    "T": "trillion",
}
SCALE_NAMES = alternatives([name for name in SCALES if len(name) > 2])
SCALE_MARKS = alternatives([name for name in SCALES if len(name) <= 2])
# Thousands stand apart by commas, by apostrophes (Swiss) or by spaces (international); in India
# all digits but the last three are in pairs.
WHOLE = (
    r"(?:\d{1,2}(?:,\d\d(?=,))++,\d{3}(?!\d)|\d{1,3}(?:,\d{3})++|\d{1,3}(?:'\d{3})++"
    r"|[1-9]\d{0,2}(?: \d{3}){2,8}+(?! ?\d)|[1-9]\d{0,2} 000(?! ?\d)|\d++)"
)
NUMBER = rf"(?P<number>{WHOLE}(?:\.\d++)?|\.\d++)"
SCALE = rf"(?: ?(?P<scale>{SCALE_NAMES})\b| ?(?P<mark>{SCALE_MARKS})\b)?"
# With a unit or a currency behind it one space is enough, unless "2 100" may be two of a hundred.
SPACED = r"(?<!\d )(?:[1-9]\d{1,2} \d{3}|[1-9] (?!\d00)\d{3})(?: \d{3})*+(?! ?\d)"
EDGE = r"(?<![\w.,/])"
MINUS = r"(?P<minus>(?<![\w)\x00%])-)?"
RANGE = r"(?P<low>\d+(?:,\d{3})*(?:\.\d+)?) ?- ?(?P<high>\d+(?:,\d{3})*(?:\.\d+)?)"
# How many times the first number of a pair is the second where the pair is a code ("978-0").
_CODE_FALL = 20


def signed(match: re.Match[str]) -> list[str]:
    """The number of a match, with "minus" where a group of that name took part."""
    sign = ["minus"] if match.groupdict().get("minus") else []
    return sign + numbers.decimal(match["number"])


def scaled(match: re.Match[str]) -> tuple[list[str], str | None]:
    """The number of a match, and the "million" or the like behind it."""
    groups = match.groupdict()
    name = groups.get("scale") or groups.get("mark")
    return signed(match), (SCALES.get(name) or SCALES[name.lower()]) if name else None


def spoken_range(match: re.Match[str]) -> list[str]:
    """A range ("5-10"), a difference where it falls and has spaces ("9 - 4"), or a code."""
    low, high = match["low"], match["high"]
    first, second = float(low.replace(",", "")), float(high.replace(",", ""))
    joint = ["minus"] if first > second and " - " in match[0] else ["to"]
    if first > _CODE_FALL * max(second, 1.0) and " " not in match[0]:
        joint = []
    return [*numbers.decimal(low), *joint, *numbers.decimal(high)]
