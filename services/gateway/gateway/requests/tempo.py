"""Pace of the text within `prosody` and `emphasis`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SLOWEST: Final = 0.25
_FASTEST: Final = 4.0
_DEEPEST: Final = 16
_RATES: Final = {
    "x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.6,
}  # fmt: skip
# A stressed word is a longer one; nothing else of an emphasis can be asked of a model here.
_LEVELS: Final = {"strong": 0.75, "moderate": 0.87, "none": 1.0, "reduced": 1.15}
_NUMBER: Final = re.compile(r"([+-]?)(\d{1,4}(?:\.\d{1,4})?)(%?)")


class Tempo:
    """The elements that are open: their rates multiply."""

    def __init__(self) -> None:
        self._open: list[tuple[str, float]] = []

    @property
    def rate(self) -> float:
        """How many times as fast as the request."""
        rate = 1.0
        for _, one in self._open:
            rate *= one
        return min(max(rate, _SLOWEST), _FASTEST)

    def take(
        self, name: str, tag: str, attributes: Mapping[str, str]
    ) -> tuple[list[str], list[str]]:
        """A tag of `prosody` or `emphasis`; returns what of it is followed, and what is not."""
        if tag.startswith("</"):
            self._close(name)
            return [], []
        if name == "emphasis":
            rate = _LEVELS.get(attributes.get("level", "moderate"))
            followed = ["emphasis"] if rate else []
            unfollowed = [] if rate else ["emphasis"]
        else:
            rate = rate_of(attributes["rate"]) if "rate" in attributes else None
            followed = ["prosody rate"] if rate else []
            unfollowed = [f"prosody {one}" for one in attributes if one != "rate" or not rate]
        if not tag.endswith("/>") and len(self._open) < _DEEPEST:
            self._open.append((name, rate or 1.0))
        return followed, unfollowed

    def _close(self, name: str) -> None:
        """Ends the innermost of its name, and what was left open within."""
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index][0] == name:
                del self._open[index:]
                return


def rate_of(written: str) -> float | None:
    """A `rate`: "slow", "80%" and "0.8" of the usual, "+20%" more; None for none of these."""
    written = written.strip().lower()
    if written in _RATES:
        return _RATES[written]
    found = _NUMBER.fullmatch(written)
    if found is None:
        return None
    number = float(found[2]) / (100 if found[3] else 1)
    rate = {"": number, "+": 1 + number, "-": 1 - number}[found[1]]
    return min(max(rate, _SLOWEST), _FASTEST)
