"""Fractions, scores and other pairs of numbers with a slash between them."""

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.names import RAW
from ttsfamilies.base.text.rules import Rule, behind, rule
from ttsfamilies.base.text.shapes import EDGE

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
