"""Chemical formulas, letter by letter: "NaOH", "H2SO4", "CuSO4.5H2O"."""

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.names import RAW
from ttsfamilies.base.text.rules import Rule, rule
from ttsfamilies.base.text.tables import listing

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
_PIECE = re.compile(r"[A-Za-z]|\d+|\.")


def _formula(match: re.Match[str]) -> list[str]:
    words: list[str] = []
    for piece in _PIECE.findall(match[0]):
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
