"""Equations, powers and signs between and behind what they are about."""

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.names import RAW
from ttsfamilies.base.text.rules import Rule, listing, rule

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


EQUATIONS: tuple[Rule, ...] = (
    rule(r"(?<=[A-Za-z])\+\+(?![\w+])", lambda m: ["plus", "plus"], needs="+"),
    rule(
        rf"(?<![\w.,/+*=^)-]){_SIDE}(?:{_RELATION}{_SIDE}){{1,3}}(?![\w/-])",
        lambda m: [word for piece in _PIECE.findall(m[0]) for word in _piece(piece)],
        needs="=",
    ),
)
POWERS: tuple[Rule, ...] = (
    rule(r"(?<!\w)[A-Za-z]{1,2}(?=\^)", lambda m: [RAW + char.upper() for char in m[0]], needs="^"),
    rule(
        r"(?<=[\w)\x00])\^(?P<sign>[-+]?)(?P<exponent>\d{1,4}|[a-z])(?!\w)",
        lambda m: _power(m["sign"], m["exponent"]),
        needs="^",
    ),
)
MATHS: tuple[Rule, ...] = (
    rule(r"(?<=\d)\+(?![\w+]| ?[\d(])", lambda m: ["plus"], needs="+"),
    rule(r"(?<![\w@])@(?=\d)|(?<=\d)@(?!\w)", lambda m: ["at"], needs="@"),
)


# Chemical formulas, letter by letter: "NaOH", "H2SO4", "CuSO4.5H2O".


# Those that people write about; a rare one would make formulas of names.
_ELEMENTS = "|".join(
    listing(
        """
        He Li Be Ne Na Mg Al Si Cl Ar Ca Ti Cr Mn Fe Co Ni Cu Zn Br Ag Sn Ba Pt Au Hg Pb
        H B C N O F P S K I U
        """
    )
)
_UNIT = rf"(?:(?:{_ELEMENTS})\d{{0,3}})"
_GROUP = rf"(?:{_UNIT}|\({_UNIT}{{1,6}}\)\d{{0,2}})"
_ATOM = re.compile(r"[A-Za-z]|\d+|\.")


def _formula(match: re.Match[str]) -> list[str]:
    words: list[str] = []
    for piece in _ATOM.findall(match[0]):
        if piece.isdigit():
            words += numbers.cardinal(piece)
        else:
            words.append("dot" if piece == "." else RAW + piece.upper())
    return words


FORMULAS: tuple[Rule, ...] = (
    rule(
        rf"(?<![\w.(-])(?=[A-Z][A-Za-z(]*[a-z0-9)])(?=[A-Za-z]?[A-Z(\d])"
        rf"{_GROUP}{{2,12}}(?:\.\d?{_GROUP}{{1,12}})?(?![\w-])",
        _formula,
    ),
)
