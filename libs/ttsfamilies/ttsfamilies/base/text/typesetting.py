"""Formulas that TeX or HTML would set, as they would be typed: `\\frac{1}{2}` is "1/2"."""

import re
from typing import Final

from ttsfamilies.base.text.tables import collection, table

_SIGNS: Final = table(
    """
    leq: ≤, le: ≤, geq: ≥, ge: ≥, neq: ≠, ne: ≠, times: ×, cdot: ×, div: ÷, pm: ±, approx: ≈,
    infty: ∞, sum: ∑, int: ∫, prod: ∏, partial: ∂, in: ∈, to: →, rightarrow: →, Rightarrow: ⇒,
    cup: ∪, cap: ∩, subset: ⊂, forall: ∀, exists: ∃, ll: ≪, gg: ≫, propto: ∝, degree: °, sqrt: √
    """
)
_LETTERS: Final = collection(
    """
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu pi rho sigma tau phi chi
    psi omega Gamma Delta Theta Lambda Pi Sigma Phi Psi Omega
    """
)
_PATH: Final = re.compile(r"[A-Za-z]:\\")
_FRACTION: Final = re.compile(r"\\[dt]?frac\{([^{}]{1,40})\}\{([^{}]{1,40})\}")
_BRACED: Final = re.compile(r"\^\{([^{}]{1,20})\}")
_COMMAND: Final = re.compile(r"\\([A-Za-z]{2,12})")
_BRACES: Final = str.maketrans("{}", "  ")
_RAISED: Final = re.compile(r"<sup>([^<>]{1,4})</sup>", re.IGNORECASE)


def typed(token: str) -> str:
    """A token as it would be typed; what is no formula is left as it is."""
    token = _RAISED.sub(_raised, token)
    if "\\" not in token or _PATH.match(token):
        return token
    token = _BRACED.sub(r"^\1", _FRACTION.sub(_fraction, token))
    found = _COMMAND.sub(_command, token)
    return found if found == token else found.translate(_BRACES)


def _fraction(match: re.Match[str]) -> str:
    top, bottom = match[1], match[2]
    return f"{top}/{bottom}" if top.isdigit() and bottom.isdigit() else f"{top} over {bottom}"


def _command(match: re.Match[str]) -> str:
    """A sign, or a letter's name."""
    name = match[1]
    return f" {_SIGNS.get(name, name)} " if name in _SIGNS or name in _LETTERS else match[0]


def _raised(match: re.Match[str]) -> str:
    """A power; what is raised of an ordinal is its ending."""
    text = match[1]
    return text if text.isalpha() and len(text) > 1 else f"^{text}"
