"""Equations, powers and signs between and behind what they are about."""

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.names import RAW
from ttsfamilies.base.text.rules import Rule, rule

_OPERATORS = {
    "+": ["plus"],
    "-": ["minus"],
    "*": ["times"],
    "/": ["divided", "by"],
    "=": ["equals"],
    "==": ["equals"],
    "<": ["is", "less", "than"],
    ">": ["is", "greater", "than"],
    "<=": ["is", "at", "most"],
    ">=": ["is", "at", "least"],
    "!=": ["is", "not", "equal", "to"],
    "~": ["about"],
}
_TERM = r"-?\(?(?:\d[\d,]{0,12}(?:\.\d{1,9})?[A-Za-z]?|[A-Za-z])(?:\^-?\d{1,3})?\)?"
_OPERATOR = r" ?(?:[-+*/]|times|divided by|plus or minus) ?"
_SIDE = rf"{_TERM}(?:{_OPERATOR}{_TERM}){{0,6}}"
_RELATION = r" ?(?:==|<=|>=|!=|=|<|>) ?"
_PIECE = re.compile(
    r"\d[\d,]*(?:\.\d+)?|\^-?\d+|==|<=|>=|!=|[-+*/=<>]|times|divided by|plus or minus|[A-Za-z]"
)


def _power(sign: str, exponent: str) -> list[str]:
    if not sign and exponent in ("2", "3"):
        return ["squared" if exponent == "2" else "cubed"]
    named = numbers.cardinal(exponent) if exponent.isdigit() else [RAW + exponent.upper()]
    return ["to", "the", "power", "of", *(["minus"] if sign == "-" else []), *named]


def _piece(text: str) -> list[str]:
    if text[0].isdigit():
        return numbers.decimal(text)
    if text[0] == "^":
        return _power("-" if "-" in text else "", text.strip("^-"))
    if text in _OPERATORS:
        return _OPERATORS[text]
    return text.split() if len(text) > 1 else [RAW + text.upper()]


def _equation(match: re.Match[str]) -> list[str]:
    return [word for piece in _PIECE.findall(match[0]) for word in _piece(piece)]


def _raised(match: re.Match[str]) -> list[str]:
    return _power(match["sign"], match["exponent"])


def _letters(match: re.Match[str]) -> list[str]:
    return [RAW + char.upper() for char in match[0]]


def _doubled(match: re.Match[str]) -> list[str]:
    return ["plus", "plus"]


def _and_more(match: re.Match[str]) -> list[str]:
    return ["plus"]


def _at(match: re.Match[str]) -> list[str]:
    return ["at"]


EQUATIONS: tuple[Rule, ...] = (
    rule(r"(?<=[A-Za-z])\+\+(?![\w+])", _doubled, needs="+"),
    rule(
        rf"(?<![\w.,/+*=^)-]){_SIDE}(?:{_RELATION}{_SIDE}){{1,3}}(?![\w/-])", _equation, needs="="
    ),
)
POWERS: tuple[Rule, ...] = (
    rule(r"(?<!\w)[A-Za-z]{1,2}(?=\^)", _letters, needs="^"),
    rule(r"(?<=[\w)\x00])\^(?P<sign>[-+]?)(?P<exponent>\d{1,4}|[a-z])(?!\w)", _raised, needs="^"),
)
MATHS: tuple[Rule, ...] = (
    rule(r"(?<=\d)\+(?![\w+]| ?[\d(])", _and_more, needs="+"),
    rule(r"(?<![\w@])@(?=\d)|(?<=\d)@(?!\w)", _at, needs="@"),
)
