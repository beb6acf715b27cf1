"""Roman numerals that their own shape or the word beside them makes certain."""

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.rules import Rule, rule

_YEARS = range(1000, 2100)


def _listed(match: re.Match[str]) -> list[str]:
    """ "(iv)", as in a list."""
    return numbers.cardinal(str(numbers.roman(match["roman"].upper())))


def _long(match: re.Match[str]) -> list[str] | None:
    """Four letters or more that no word has: a year such as MCMXCIX, or a number."""
    text = match["roman"]
    if not numbers.is_roman(text) or text in ("MIDI", "CIVIC", "MILD", "MIDDLE", "VIVID", "MIXI"):
        return None
    value = numbers.roman(text)
    return numbers.year(str(value)) if value in _YEARS else numbers.cardinal(str(value))


def _century(match: re.Match[str]) -> list[str] | None:
    text = match["roman"]
    return numbers.ordinal(str(numbers.roman(text))) if numbers.is_roman(text) else None


ROMANS: tuple[Rule, ...] = (
    rule(
        r"(?<=\()(?<!\w\()(?P<roman>i{2,3}|iv|vi{1,3}|ix|xi{0,3}|xiv|xvi{0,3})(?=\))",
        _listed,
        needs="(",
    ),
    rule(r"(?<!\w)(?P<roman>[IVX]{1,6})(?:th)?(?= [Cc]entur)", _century, literal="entur"),
    rule(r"(?<![\w.-])(?P<roman>M[MDCLXVI]{4,14}|X[LXVI]{3,7})(?![\w-])", _long, needs="MX"),
)
