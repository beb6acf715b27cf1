"""Ordinals, ranges, versions, and numbers by themselves."""

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.rules import Rule, before, rule
from ttsfamilies.base.text.shapes import (
    EDGE,
    MINUS,
    NUMBER,
    RANGE,
    WHOLE,
    scaled,
    signed,
    spoken_range,
)

# What a capital behind a number belongs to where it is no billion: "Apartment 2B".
_LABELLED = re.compile(
    r"(?:apartment|apt|unit|room|flat|seat|gate|row|class|grade|section|block|level|appendix|suite"
    r"|figure|fig|table|number|no|door|platform|vitamin|pencil|an?|the|building|zone|page"
    r"|step|phase|type|ward|plan|form|schedule|terminal|hepatitis)[. ]*$",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"parameter|model|revenue|user|valu|raised|worth|about|over|than|sales|view|stream|people|tokens"
    r"|[0-9](?:[MK]|bn)\b"
)


def _ordinal(match: re.Match[str]) -> list[str]:
    return numbers.ordinal(match["number"])


def _picture_width(match: re.Match[str]) -> list[str]:
    return [*numbers.cardinal(match["number"]), "k"]


def _scaled_number(match: re.Match[str]) -> list[str]:
    words, scale = scaled(match)
    return [*words, scale] if scale else words


def _billions(match: re.Match[str]) -> list[str] | None:
    """ "2B" is two billion, unless a label stands before it or it is one by itself."""
    near = match.string[max(0, match.start() - 60) : match.end() + 60]
    counted = "." in match["number"] or _COUNTED.search(near)
    if not counted or _LABELLED.search(before(match)):
        return None
    return _scaled_number(match)


def _dotted(match: re.Match[str]) -> list[str]:
    words: list[str] = []
    for group in match["number"].split("."):
        words += [*(numbers.cardinal(group) if len(group) < 4 else numbers.digits(group)), "dot"]
    return words[:-1]


def _scientific(match: re.Match[str]) -> list[str]:
    sign = ["minus"] if match["minus"] else []
    power = ["minus"] if match["sign"] == "-" else []
    exponent = numbers.cardinal(match["exponent"])
    number = numbers.decimal(match["number"])
    return [*sign, *number, "times", "ten", "to", "the", "power", "of", *power, *exponent]


def _plain(match: re.Match[str]) -> list[str]:
    text = match["number"]
    whole = text.partition(".")[0]
    parted = not whole.isdigit()
    if (len(whole) > 1 and whole[0] == "0") or (not parted and len(whole) > 9):
        words = numbers.digits(whole)
        rest = numbers.decimal(text[len(whole) :]) if "." in text else []
        return (["minus"] if match["minus"] else []) + words + rest
    return signed(match)


NUMBERS: tuple[Rule, ...] = (
    rule(rf"{EDGE}(?P<number>{WHOLE})-?(?:st|nd|rd|th|ST|ND|RD|TH)\b", _ordinal, needs="tdhTDH"),
    rule(rf"(?<![\w.,/-]){RANGE}(?![\w/-])", spoken_range, needs="-"),
    rule(r"(?<![\w.])(?P<number>\d{1,4}(?:\.\d{1,4}){2,6})(?!\w)", _dotted, needs="."),
    rule(
        rf"{EDGE}{MINUS}(?P<number>\d{{1,4}}(?:\.\d+)?)[eE](?P<sign>[+-]?)(?P<exponent>\d{{1,3}})"
        r"(?![\w.]\w|\w)",
        _scientific,
        needs="eE",
    ),
    rule(rf"{EDGE}(?P<number>[248])K(?!\w)", _picture_width, needs="K"),
    rule(
        rf"{EDGE}{MINUS}(?P<number>\d{{1,3}}(?:\.\d+)?)(?P<mark>k|K|M|bn)(?!\w)",
        _scaled_number,
        needs="kKMb",
    ),
    rule(
        rf"{EDGE}{MINUS}(?P<number>\d{{1,3}}(?:\.\d+)?)(?P<mark>[BT])(?!\w)", _billions, needs="BT"
    ),
    rule(rf"{MINUS}{NUMBER}", _plain),
)
