"""Codes, labels and telephone numbers: what is read in groups or sign by sign."""

from __future__ import annotations

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.measures import UNITS, unit
from ttsfamilies.base.text.names import RAW, pieces
from ttsfamilies.base.text.rules import PAUSE_MARK, Rule, behind, rule
from ttsfamilies.base.text.words import letter

# Telephone numbers, and digits that are read in groups: cards, social security, book numbers.


_TOLL_FREE = "800|888|877|866|855|844|833|900"
_EXTENSION = r"(?:,? ?(?:x|ext\.?|extension) ?(?P<extension>\d{1,5}))?"
_FREE = r"(?<![\w.+-])"
_END = r"(?![\w-]|[.,:]\d)"


def _digit_groups(text: str) -> list[str]:
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
        return plus + _digit_groups(match[0])
    said = [PAUSE_MARK, "extension", *numbers.digits(extension)]
    return plus + _digit_groups(match[0][: match.start("extension") - match.start()]) + said


def _vanity(match: re.Match[str]) -> list[str]:
    """Letters that stand for digits: "1-800-FLOWERS"."""
    words = ["plus"] if match[0].startswith("+") else []
    for part in match[0].lstrip("+").split("-"):
        said = _digit_groups(part) if part.isdigit() else [RAW + part]
        words += [*said, PAUSE_MARK]
    return words[:-1]


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
        lambda m: _digit_groups(m[0]),
    ),
    rule(
        r"(?<![\w.,-])(?P<number>911)(?!\w|[,.-]\d)"
        r"|(?i:(?<=\bcall )|(?<=\bdial )|(?<=\bring ))(?P<short>\d{3})(?!\w|[,.:/-]\d| ?[a-z])",
        lambda match: numbers.digits(match[0]),
    ),
)


# Codes and labels: addresses of machines, PINs, rooms, versions, part numbers.


_BEFORE_DIGITS = (
    "code",
    "code is",
    "code:",
    "pin:",
    "otp:",
    "passcode:",
    "pin",
    "pin is",
    "otp",
    "otp is",
    "passcode",
    "passcode is",
    "zip",
    "ext.",
    "extension",
    "ending in",
    "ending with",
    "card number",
    "account number",
)
_BEFORE_LABEL = (
    *("room", "flight", "route", "highway", "apartment", "suite", "boeing", "bus", "area"),
    *("interstate", "airbus", "http", "error"),
)


def _address(match: re.Match[str]) -> list[str]:
    """An address of the internet protocol, digit by digit, and its port."""
    host, _, port = match["number"].partition(":")
    words: list[str] = []
    for group in host.split("."):
        words += [*numbers.digits(group), "dot"]
    return words[:-1] + (["colon", *numbers.digits(port)] if port else [])


def _spelled(match: re.Match[str]) -> list[str]:
    """Digit by digit, with a break where a space or a hyphen is."""
    words = [RAW + char for char in (match.groupdict().get("letters") or "").upper()]
    for group in re.findall(r"\d+", match["number"]):
        words += [*numbers.digits(group), PAUSE_MARK]
    return words[:-1]


def _version(match: re.Match[str]) -> list[str]:
    """ "v2.10.3" and "v1.10"."""
    parts = match["number"].split(".")
    words = ["v", *numbers.cardinal(parts[0])]
    for part in parts[1:]:
        words.append("point")
        words += numbers.digits(part) if part[0] == "0" else numbers.cardinal(part)
    return words


def _parts(match: re.Match[str]) -> list[str] | None:
    """Letters and digits between hyphens: "2-for-1", "10-km-long", "Llama-3.1-70B"."""
    words: list[str] = []
    parts = match[0].split("-")
    for before, part in zip(("", *parts), parts, strict=False):
        if before.isdigit() and part in UNITS and len(part) > 1:
            words += unit(part, one=True)
        elif "." in part:
            for piece in re.findall(r"[A-Za-z]+|[\d.]+", part):
                words += [RAW + piece] if piece.isalpha() else numbers.decimal(piece)
        else:
            words += pieces(part)
    return words


def _groups(match: re.Match[str]) -> list[str]:
    """Digits in groups, as in an ISBN; "12-4-1", wins and losses, are numbers."""
    groups = match["number"].split("-")
    counted = all(len(one) < 3 and one[0] != "0" for one in groups)
    counted = counted and any(len(one) == 1 for one in groups)
    words: list[str] = []
    for group in groups:
        words += [*(numbers.cardinal if counted else numbers.digits)(group), PAUSE_MARK]
    return words[:-1]


def _pension(match: re.Match[str]) -> list[str]:
    """American savings plans, "401(k)" and "403(b)"."""
    return [*numbers.room(match["number"]), letter(match["letter"])]


def _code(match: re.Match[str]) -> list[str]:
    """Four digits behind letters, as in "AA1234": "twelve thirty four"."""
    first, second = match["number"][:2], match["number"][2:]
    return [*numbers.cardinal(first), *numbers.cardinal(second)]


LABELS: tuple[Rule, ...] = (
    rule(
        r"(?<![\w.])(?P<number>\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?)(?![\w.]\d)",
        _address,
        needs=".",
    ),
    rule(
        rf"(?=[A-Za-z]{{0,3}}\d\d){behind(_BEFORE_DIGITS)}(?P<letters>[A-Za-z]{{0,3}})"
        r"(?P<number>\d{3,16}|\d{2,4}(?:[ -]\d{2,4}){1,4})(?!\w|,\d|[ -]\d)",
        _spelled,
    ),
    rule(
        r"(?<![\w.,$€£-])(?P<number>\d{3,4} \d{3,4}|\d{4,8})"
        r"(?= is (?:your|the) (?:[\w-]{1,20} ){0,3}(?:code|pin|otp|passcode)\b)",
        _spelled,
        re.IGNORECASE,
    ),
    rule(r"(?<=[A-Z]{3} to )(?P<number>\d{5,6})(?!\w|[,.]\d)", _spelled, literal=" to "),
    rule(r"(?<![\w.])[vV](?P<number>\d{1,4}(?:\.\d{1,4}){1,4})(?!\w|[.-]\d)", _version, needs="vV"),
    rule(
        rf"(?=[1-9]\d\d){behind(_BEFORE_LABEL)}(?P<number>[1-9]\d{{2,3}})(?!\w|,\d)",
        lambda m: numbers.room(m["number"]),
    ),
    rule(r"(?<!\w)(?P<number>40[13]|457|529)\((?P<letter>[abkABK])\)", _pension, needs="("),
    rule(
        r"(?<![\w.,])(?P<number>240|360|480|576|720|1080|1440|2160)(?P<scan>[pi])(?!\w)",
        lambda m: [*numbers.room(m["number"]), m["scan"]],
    ),
)
GROUPS: tuple[Rule, ...] = (
    rule(r"(?<![\w.,/-])(?P<number>\d{1,9}(?:-\d{1,9}){2,6})(?![\w/-])", _groups, needs="-"),
    rule(
        r"(?<![\w-])(?=[A-Za-z0-9.-]{0,60}\d)(?=[0-9-]{0,60}[A-Za-z])[A-Za-z0-9]{1,20}"
        r"(?:\.\d{1,3})?(?:-[A-Za-z0-9]{1,20}(?:\.\d{1,3})?){2,8}(?![\w-]|\.\d)",
        _parts,
        needs="-",
    ),
    rule(r"(?<=[A-Za-z])(?<!\dx)(?P<number>[1-9]\d[1-9]\d)(?![\w.])", _code),
)
