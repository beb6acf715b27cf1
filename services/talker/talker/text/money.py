"""Sums of money."""

import re

from talker.text import numbers
from talker.text.rules import Rule, alternatives, rule
from talker.text.shapes import (
    EDGE,
    MINUS,
    NUMBER,
    SCALE,
    SCALE_NAMES,
    SCALES,
    WHOLE,
    scaled,
    signed,
    spoken_range,
)

_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "US$": ("u s dollar", "u s dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "USD": ("u s dollar", "u s dollars", "cent", "cents"),
    "EUR": ("euro", "euros", "cent", "cents"),
    "GBP": ("british pound", "british pounds", "penny", "pence"),
    "JPY": ("japanese yen", "japanese yen", "sen", "sen"),
    "CHF": ("swiss franc", "swiss francs", "centime", "centimes"),
}
_SIGNS = alternatives([name for name in _CURRENCIES if not name.isalpha()])
_CODES = alternatives([name for name in _CURRENCIES if name.isalpha()])


def _money(match: re.Match[str]) -> list[str]:
    groups = match.groupdict()
    one, many, cent, cents = _CURRENCIES[match["currency"].upper()]
    words, scale = scaled(match)
    whole, point, part = match["number"].partition(".")
    if scale is not None:
        return [*words, scale, *many.split()]
    if not point or len(part) != 2:
        name = one if match["number"] == "1" else many
        return [*words, *name.split()]
    sign = ["minus"] if groups.get("minus") else []
    small = [*numbers.cardinal(part), cent if part == "01" else cents]
    if not whole.strip("0,"):
        return sign + (small if part != "00" else ["zero", *many.split()])
    amount = [*sign, *numbers.cardinal(whole), *(one if whole == "1" else many).split()]
    return amount if part == "00" else [*amount, "and", *small]


def _money_range(match: re.Match[str]) -> list[str]:
    scale = match["scale"] or match["mark"]
    words = [*spoken_range(match), *([SCALES[scale]] if scale else [])]
    return [*words, *_CURRENCIES[match["currency"]][1].split()]


def _cents(match: re.Match[str]) -> list[str]:
    return [*signed(match), "cent" if match["number"] == "1" else "cents"]


MONEY: tuple[Rule, ...] = (
    rule(
        rf"(?P<currency>{_SIGNS}) ?(?P<low>{WHOLE}(?:\.\d++)?) ?- ?(?P=currency)?"
        rf"(?P<high>{WHOLE}(?:\.\d++)?){SCALE}",
        _money_range,
    ),
    rule(
        rf"{MINUS}(?P<currency>{_SIGNS}) ?{NUMBER}"
        rf"{SCALE}",
        _money,
        re.IGNORECASE,
    ),
    rule(rf"\b(?P<currency>{_CODES}) {NUMBER}(?: (?P<scale>{SCALE_NAMES})\b)?", _money),
    rule(
        rf"{EDGE}{NUMBER}(?: (?P<scale>{SCALE_NAMES}))? ?(?P<currency>[€£]|(?:{_CODES})\b)",
        _money,
    ),
    rule(rf"{EDGE}{NUMBER} ?¢", _cents),
)
