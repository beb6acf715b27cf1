"""Shapes of numbers in running text, fractions, ordinals, ranges, and numbers by themselves."""

from __future__ import annotations

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.names import RAW
from ttsfamilies.base.text.rules import Rule, alternatives, before, behind, rule, table

# Shapes. Patterns that use NUMBER have a group "number", RANGE has "low" and "high", SCALE "scale"
# or "mark".


SCALES = {
    **{name: name for name in ("hundred", "thousand", "million", "billion", "trillion")},
    **table(
        """
        lakh: lakh, lakhs: lakh, crore: crore, crores: crore, k: thousand, K: thousand, M: million,
        m: million, mn: million, B: billion, bn: billion, b: billion, T: trillion
        """
    ),
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


# Fractions, scores and other pairs of numbers with a slash between them.


_BEFORE_SCORES = ("scored", "score", "score of", "rated", "got", "rating of")
FRACTION = (
    r"(?<![\w.,/])(?:(?P<whole>\d{1,4})(?: | ?and |-))?(?P<top>\d{1,2})"
    r"/(?P<bottom>[2-9]|1[0-9]|32|64|100)(?:st|nd|rd|th|ST|ND|RD|TH)?(?![\w/])"
)


def mixed(match: re.Match[str]) -> list[str]:
    """A fraction with or without a whole number before it: "2 1/2"."""
    words = numbers.fraction(match["top"], match["bottom"])
    if match["whole"] is None:
        return words
    part = ["a", *words[1:]] if match["top"] == "1" else words
    return [*numbers.cardinal(match["whole"]), "and", *part]


def _pair(match: re.Match[str]) -> list[str]:
    """Such as "24/7" and "9/11", which are said as two numbers."""
    first, _, second = match["number"].partition("/")
    return [*numbers.cardinal(first), *numbers.cardinal(second)]


def _out_of(match: re.Match[str]) -> list[str]:
    """Equal numbers on both sides of a slash: "10/10", but "50/50" and "20/20" as pairs."""
    number = numbers.cardinal(match["number"])
    return [*number, *(("out", "of") if match["number"] not in ("20", "50") else ()), *number]


def _score(match: re.Match[str]) -> list[str]:
    return [*numbers.cardinal(match["top"]), "out", "of", *numbers.cardinal(match["bottom"])]


def _counter(match: re.Match[str]) -> list[str] | None:
    """ "(1/3)" in front of a text: the first of three."""
    if match.start() != 1 or int(match["top"]) > int(match["bottom"]):
        return None
    return [*numbers.cardinal(match["top"]), "of", *numbers.cardinal(match["bottom"])]


def _whole_over(match: re.Match[str]) -> list[str]:
    """A mixed number whose denominator makes no fraction: "2 142/1"."""
    top, bottom = numbers.cardinal(match["top"]), numbers.cardinal(match["bottom"])
    return [*numbers.cardinal(match["whole"]), "and", *top, "over", *bottom]


def _one_over(match: re.Match[str]) -> list[str]:
    """ "1/f", as of noise; "1/s" is a measure."""
    return [*numbers.cardinal(match["top"]), "over", RAW + match["letter"].upper()]


def _over(match: re.Match[str]) -> list[str]:
    """Any other pair, such as a blood pressure."""
    top, bottom = match["top"], match["bottom"]
    pressure = len(top) == 3 and len(bottom) <= 3
    first = numbers.room(top) if pressure and not top.endswith("00") else numbers.cardinal(top)
    return [*first, "over", *numbers.cardinal(bottom)]


FRACTIONS: tuple[Rule, ...] = (
    rule(r"(?<=\()(?P<top>\d{1,2})/(?P<bottom>\d{1,2})(?=\))", _counter, needs="("),
    rule(rf"{EDGE}(?P<number>24/7|9/11|50/50|20/20)(?![\w/])", _pair, needs="/"),
    rule(rf"{EDGE}(?P<number>\d{{1,3}})/(?P=number)(?![\w/])", _out_of, needs="/"),
    rule(
        rf"{behind(_BEFORE_SCORES)}"
        r"(?P<top>\d{1,3})/(?P<bottom>5|10|20)(?![\w/])",
        _score,
        needs="/",
    ),
    rule(rf"{EDGE}(?P<top>\d{{2,3}})/(?P<bottom>100)(?![\w/])", _score, needs="/"),
    rule(FRACTION, mixed, needs="/"),
    rule(
        rf"{EDGE}(?P<whole>\d{{1,2}}) (?P<top>\d{{3}})/(?P<bottom>\d)(?![\w/]|\.\d)",
        _whole_over,
        needs="/",
    ),
    rule(rf"{EDGE}(?P<top>1)/(?P<letter>[fknpqxyzNTX])(?![\w/-])", _one_over, needs="/"),
    rule(rf"{EDGE}(?P<top>\d{{1,6}})/(?P<bottom>\d{{1,6}})(?![\w/]|\.\d)", _over, needs="/"),
)


# Ordinals, ranges, versions, and numbers by themselves.


# What a capital behind a number belongs to where it is no billion: "Apartment 2B".
_LABELLED = re.compile(
    r"(?:apartment|apt|unit|room|flat|seat|gate|row|class|grade|section|block|level|appendix|suite"
    r"|figure|fig|table|number|no|door|platform|vitamin|pencil|an?|the|building|zone|page"
    r"|step|phase|type|ward|plan|form|schedule|terminal|hepatitis)[. ]*$",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"parameter|model|revenue|user|valu|raised|worth|about|over|than|sales|view|stream|people|tokens"
    r"|[0-9](?:[MK]|bn)\b"
)


def _scaled_number(match: re.Match[str]) -> list[str]:
    words, scale = scaled(match)
    return [*words, scale] if scale else words


def _billions(match: re.Match[str]) -> list[str] | None:
    """ "2B" is two billion, unless a label stands before it or it is one by itself."""
    near = match.string[max(0, match.start() - 60) : match.end() + 60]
    counted = "." in match["number"] or _COUNTED.search(near)
    if not counted or _LABELLED.search(before(match)):
        return None
    return _scaled_number(match)


def _dotted(match: re.Match[str]) -> list[str]:
    words: list[str] = []
    for group in match["number"].split("."):
        words += [*(numbers.cardinal(group) if len(group) < 4 else numbers.digits(group)), "dot"]
    return words[:-1]


def _scientific(match: re.Match[str]) -> list[str]:
    power = ["minus"] if match["sign"] == "-" else []
    exponent = numbers.cardinal(match["exponent"])
    return [*signed(match), "times", "ten", "to", "the", "power", "of", *power, *exponent]


def _plain(match: re.Match[str]) -> list[str]:
    text = match["number"]
    whole = text.partition(".")[0]
    parted = not whole.isdigit()
    if (len(whole) > 1 and whole[0] == "0") or (not parted and len(whole) > 9):
        words = numbers.digits(whole)
        rest = numbers.decimal(text[len(whole) :]) if "." in text else []
        return (["minus"] if match["minus"] else []) + words + rest
    return signed(match)


NUMBERS: tuple[Rule, ...] = (
    rule(
        rf"{EDGE}(?P<number>{WHOLE})-?(?:st|nd|rd|th|ST|ND|RD|TH)\b",
        lambda m: numbers.ordinal(m["number"]),
        needs="tdhTDH",
    ),
    rule(rf"(?<![\w.,/-]){RANGE}(?![\w/-])", spoken_range, needs="-"),
    rule(r"(?<![\w.])(?P<number>\d{1,4}(?:\.\d{1,4}){2,6})(?!\w)", _dotted, needs="."),
    rule(
        rf"{EDGE}{MINUS}(?P<number>\d{{1,4}}(?:\.\d+)?)[eE](?P<sign>[+-]?)(?P<exponent>\d{{1,3}})"
        r"(?![\w.]\w|\w)",
        _scientific,
        needs="eE",
    ),
    rule(
        rf"{EDGE}(?P<number>[248])K(?!\w)",
        lambda m: [*numbers.cardinal(m["number"]), "k"],
        needs="K",
    ),
    rule(
        rf"{EDGE}{MINUS}(?P<number>\d{{1,3}}(?:\.\d+)?)(?P<mark>k|K|M|bn)(?!\w)",
        _scaled_number,
        needs="kKMb",
    ),
    rule(
        rf"{EDGE}{MINUS}(?P<number>\d{{1,3}}(?:\.\d+)?)(?P<mark>[BT])(?!\w)", _billions, needs="BT"
    ),
    rule(rf"{MINUS}{NUMBER}", _plain),
)
