"""Dates, years, decades and times of day. Ambiguous dates are read as in the United States."""

import re

from talker.text import numbers
from talker.text.rules import PAUSE_MARK, Rule, alternatives, rule
from talker.text.tables import listing

_MONTHS = listing(
    "january february march april may june july august september october november december"
)
_MONTH_NAMES = {
    **{month.capitalize(): month for month in _MONTHS},
    **{month.upper(): month for month in _MONTHS},
    **{month[:3].capitalize(): month for month in _MONTHS},
    "Sept": "september",
}
_MONTH = rf"(?P<month>{alternatives(list(_MONTH_NAMES))})\.?"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?P<year>1[0-9]\d\d|20\d\d)"
_EDGE = r"(?<![\w.$€£/])(?<![\d\x00]-)"
_CLOCK_EDGE = r"(?<![\w.$€£/:])"
_STOP = r"(?![\w/-]|[.,:]\d)"
_HALF = r"(?P<half>[AaPp])\.?[Mm]\b\.?"
_ZONES = r"(?P<zone>UTC|GMT|EST|EDT|CST|CDT|MST|MDT|PST|PDT|CET|CEST|ET|PT)"


def _day(text: str) -> list[str]:
    return numbers.ordinal(text)


def _optional_year(match: re.Match[str]) -> list[str]:
    """The year behind a date, after a break where a comma is written."""
    if not match["year"]:
        return []
    return [*((PAUSE_MARK,) if "," in match[0] else ()), *numbers.year(match["year"])]


def _month_day(match: re.Match[str]) -> list[str]:
    return [_MONTH_NAMES[match["month"]], *_day(match["day"]), *_optional_year(match)]


def _day_month(match: re.Match[str]) -> list[str]:
    words = ["the", *_day(match["day"]), "of", _MONTH_NAMES[match["month"]]]
    if match["the"]:
        words = [*match["the"].split(), *words[1:]]
    return words + _optional_year(match)


def _month_year(match: re.Match[str]) -> list[str]:
    return [_MONTH_NAMES[match["month"]], *numbers.year(match["year"])]


def _numeric(match: re.Match[str]) -> list[str]:
    month, day, year = int(match["month"]), match["day"], match["year"]
    if month > 12:
        month, day = int(day), match["month"]
    if not 1 <= month <= 12:
        return _digit_groups(match)
    if len(year) == 2:
        year = ("19" if int(year) > 60 else "20") + year
    return [_MONTHS[month - 1], *_day(day), *numbers.year(year)]


def _slash_date(match: re.Match[str]) -> list[str]:
    return [_MONTHS[int(match["month"]) - 1], *_day(match["day"])]


def _digit_groups(match: re.Match[str]) -> list[str]:
    words: list[str] = []
    for group in re.findall(r"\d+", match[0]):
        words += [*numbers.cardinal(group), PAUSE_MARK]
    return words[:-1]


def _clock(match: re.Match[str]) -> list[str]:
    hour, minute, half = int(match["hour"]), int(match["minute"]), match["half"]
    words = numbers.cardinal(match["hour"])
    if match["second"]:
        words += [*numbers.pair(minute), "and", *numbers.cardinal(match["second"]), "seconds"]
    elif minute:
        words += numbers.pair(minute)
    elif hour == 0 or hour > 12:
        words += ["hundred"] if hour else ["hundred", "hours"]
    elif not half:
        words += ["o'clock"]
    return words + _half_and_zone(match)


def _hour(match: re.Match[str]) -> list[str]:
    return numbers.cardinal(match["hour"]) + _half_and_zone(match)


def _half_and_zone(match: re.Match[str]) -> list[str]:
    groups = match.groupdict()
    words = ["_a" if groups["half"] in "Aa" else "p", "m"] if groups.get("half") else []
    zone = (groups.get("zone") or "").lower()
    return words + ["_a" if letter == "a" else letter for letter in zone]


def _decade(match: re.Match[str]) -> list[str]:
    return numbers.decade(match["digits"])


def _years(match: re.Match[str]) -> list[str]:
    later = match["later"]
    end = numbers.year(later) if len(later) == 4 else numbers.pair(int(later))
    return [*numbers.year(match["year"]), "to", *end]


def _year(match: re.Match[str]) -> list[str]:
    return numbers.year(match["year"])


DATES: tuple[Rule, ...] = (
    rule(rf"{_EDGE}(?P<year>[12]\d\d\d)-(?P<month>0\d|1[0-2])-(?P<day>[0-3]\d)(?![\w-])", _numeric),
    rule(rf"{_EDGE}(?P<year>[12]\d\d\d)/(?P<month>[01]?\d)/(?P<day>[0-3]?\d)(?![\w/-])", _numeric),
    rule(rf"{_EDGE}(?P<month>[1-9]|1[0-2])/(?P<day>1[3-9]|2\d|3[01])(?![\w/-])", _slash_date),
    rule(
        rf"{_EDGE}(?P<month>[01]?\d)/(?P<day>[0-3]?\d)/(?P<year>[12]\d\d\d|\d\d)(?![\w/-])",
        _numeric,
    ),
    rule(
        rf"{_EDGE}(?P<day>[0-3]?\d)\.(?P<month>[01]?\d)\.(?P<year>[12]\d\d\d)(?![\w/-])", _numeric
    ),
    rule(rf"\b{_MONTH} {_DAY}(?:st|nd|rd|th)?(?:,? {_YEAR})?{_STOP}", _month_day),
    rule(
        rf"{_EDGE}(?P<the>(?:on )?the )?{_DAY}(?:st|nd|rd|th)?(?: of)? {_MONTH}"
        rf"(?:,? {_YEAR})?(?!\w)",
        _day_month,
    ),
    rule(rf"\b{_MONTH},? {_YEAR}{_STOP}", _month_year),
    rule(
        rf"{_CLOCK_EDGE}(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?"
        rf"(?: ?{_HALF})?(?: {_ZONES}\b)?(?![\w:])",
        _clock,
    ),
    rule(rf"{_CLOCK_EDGE}(?P<hour>1[0-2]|0?[1-9]) ?{_HALF}(?: {_ZONES}\b)?(?!\w)", _hour),
    rule(r"(?<![\w.$€£/])(?<!\d-)'?(?P<digits>[12]\d\d0|[2-9]0)'?s\b", _decade),
)
YEARS: tuple[Rule, ...] = (
    rule(rf"{_EDGE}{_YEAR}-(?P<later>[12]\d\d\d|\d\d)(?![\w/-]|[.,]\d)", _years),
    rule(rf"{_EDGE}(?P<year>1[1-9]\d\d|20\d\d){_STOP}", _year),
)
