"""Telephone numbers, and digits that are read in groups: cards, social security, book numbers."""

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.names import RAW
from ttsfamilies.base.text.rules import PAUSE_MARK, Rule, rule

_TOLL_FREE = "800|888|877|866|855|844|833|900"
_EXTENSION = r"(?:,? ?(?:x|ext\.?|extension) ?(?P<extension>\d{1,5}))?"
_FREE = r"(?<![\w.+-])"
_END = r"(?![\w-]|[.,:]\d)"


def _groups(text: str) -> list[str]:
    """Digit by digit with a break between groups; "800" and "900" are said as numbers."""
    words: list[str] = []
    for group in re.findall(r"\d+", text):
        round_number = group in ("800", "900")
        words += [*(numbers.cardinal(group) if round_number else numbers.digits(group)), PAUSE_MARK]
    return words[:-1]


def _telephone(match: re.Match[str]) -> list[str]:
    plus = ["plus"] if match[0].startswith("+") else []
    extension = match.groupdict().get("extension")
    if extension is None:
        return plus + _groups(match[0])
    said = [PAUSE_MARK, "extension", *numbers.digits(extension)]
    return plus + _groups(match[0][: match.start("extension") - match.start()]) + said


def _vanity(match: re.Match[str]) -> list[str]:
    """Letters that stand for digits: "1-800-FLOWERS"."""
    words = ["plus"] if match[0].startswith("+") else []
    for part in match[0].lstrip("+").split("-"):
        said = _groups(part) if part.isdigit() else [RAW + part]
        words += [*said, PAUSE_MARK]
    return words[:-1]


def _plain_groups(match: re.Match[str]) -> list[str]:
    return _groups(match[0])


TELEPHONES: tuple[Rule, ...] = (
    rule(
        rf"{_FREE}\+?(?:1-)?(?:{_TOLL_FREE})-(?=[A-Z0-9-]*[A-Z])[A-Z0-9]{{1,10}}"
        r"(?:-[A-Z0-9]{1,10}){0,4}(?![\w-])",
        _vanity,
        needs="-",
    ),
    rule(
        rf"{_FREE}(?:\+?\d{{1,3}}[ .-]?)?(?:\(\d{{3}}\)[ -]?|\d{{3}}[ .-])\d{{3}}[ .-]\d{{4}}"
        rf"(?:-\d{{1,5}})?(?![\w-]){_EXTENSION}",
        _telephone,
        needs=" .-",
    ),
    rule(rf"{_FREE}\+\d{{1,3}}(?:[ .-]?\(?\d{{1,5}}\)?){{2,6}}{_END}", _telephone, needs="+"),
    rule(
        rf"{_FREE}(?:\(0\d{{2,4}}\)|0\d{{2,4}})[ -]\d{{3,4}}[ -]\d{{3,4}}{_END}"
        rf"|{_FREE}0\d{{4}} \d{{5,6}}{_END}",
        _telephone,
        needs="0",
    ),
    rule(rf"{_FREE}\d{{3}}-\d{{4}}{_END}", _telephone, needs="-"),
    rule(
        rf"{_FREE}\d{{4}}(?P<gap>[ -])\d{{4}}(?P=gap)\d{{4}}(?P=gap)\d{{1,4}}{_END}"
        rf"|{_FREE}\d{{4}} \d{{6}} \d{{5}}{_END}",
        _plain_groups,
    ),
    rule(
        r"(?<![\w.,-])(?P<number>911)(?!\w|[,.-]\d)"
        r"|(?i:(?<=\bcall )|(?<=\bdial )|(?<=\bring ))(?P<short>\d{3})(?!\w|[,.:/-]\d| ?[a-z])",
        lambda match: numbers.digits(match[0]),
    ),
)
