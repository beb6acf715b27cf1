"""Dates, years, eras, decades and weekdays.

Digits that make two dates are read as the locale has it, those that make one as they are written.
"""

from __future__ import annotations

import re
from functools import cache

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.rules import PAUSE_MARK, Rule, alternatives, behind, listing, rule
from ttsfamilies.base.text.times import clock
from ttsfamilies.base.text.words import WEEKDAYS

MONTHS = listing(
    "january february march april may june july august september october november december"
)
_MONTH_NAMES = {
    **{month: month for month in MONTHS},
    **{month[:3]: month for month in MONTHS},
    "sept": "september",
}
# Lower-case names that are words of their own need more than a number beside them.
_WORDS_TOO = ("may", "march", "mar", "dec", "sep", "jun")
_DAYS_AND_MONTHS = {
    **WEEKDAYS,
    **{name.capitalize(): month for name, month in _MONTH_NAMES.items() if len(name) < 5},
}
_MONTH = rf"(?P<month>(?i:{alternatives(list(_MONTH_NAMES))}))\b\.?"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])"
_TH = r"(?P<th>st|nd|rd|th|ST|ND|RD|TH)?"
YEAR = r"(?P<year>1[0-9]\d\d|20\d\d)"
EDGE = r"(?<![\w.$€£/])(?<![\d\x00]-)"
STOP = r"(?![\w/-]|[.,:]\d)"
_SIZES = r"(?! ?(?:inch|in\.|\"|of an?\b|of the\b|cups?\b|tsp|tbsp|miles?\b|lbs?\b|oz\b))"
_QUARTERS = {"1": "first", "2": "second", "3": "third", "4": "fourth"}
_ERAS = {"AD": "_a d", "BC": "b c", "CE": "c e", "BCE": "b c e"}


def _month(match: re.Match[str]) -> str:
    return _MONTH_NAMES[match["month"].lower()]


def _is_word(match: re.Match[str]) -> bool:
    """Whether a month's name may be the verb or another word: "may 3 people enter"."""
    name = match["month"]
    return name.islower() and name in _WORDS_TOO and not match.groupdict().get("year")


def _optional_year(match: re.Match[str]) -> list[str]:
    """The year behind a date, after a break where a comma is written."""
    if not match["year"]:
        return []
    return [*((PAUSE_MARK,) if "," in match[0] else ()), *numbers.year(match["year"])]


def _days(match: re.Match[str]) -> list[str]:
    """The day of a match, or its first and its last."""
    last = match.groupdict().get("last")
    first = numbers.ordinal(match["day"])
    return [*first, "to", *numbers.ordinal(last)] if last else first


def _month_day(match: re.Match[str]) -> list[str] | None:
    following = match.string[match.end() : match.end() + 2]
    if _is_word(match) and not match["th"] and re.match(r" [a-z]", following):
        return None
    return [_month(match), *_days(match), *_optional_year(match)]


def _day_month(match: re.Match[str]) -> list[str] | None:
    if _is_word(match) and not match["th"] and not match["the"]:
        return None
    words = ["the", *_days(match), "of", _month(match)]
    if match["the"]:
        words = [*match["the"].lower().split(), *words[1:]]
    return words + _optional_year(match)


def _dashed(match: re.Match[str]) -> list[str]:
    """ "Jan-15-2020" and "15-Jan-2020"."""
    return [_month(match), *numbers.ordinal(match["day"]), *_optional_year(match)]


def full_year(text: str) -> str:
    """With its century, where a year of two digits has none."""
    return ("19" if int(text) > 60 else "20") + text if len(text) == 2 else text


def _in_digits(match: re.Match[str], day_first: bool) -> list[str] | None:
    """Two small numbers and a year; None where they make no date."""
    first, second = match["first"], match["second"]
    if int(second) > 12 or not (day_first or int(first) > 12):
        month, day, named = first, second, False
    else:
        day, month, named = first, second, True
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return None
    name = MONTHS[int(month) - 1]
    order = ["the", *numbers.ordinal(day), "of", name] if named else [name, *numbers.ordinal(day)]
    return [*order, *numbers.year(full_year(match["year"]))]


def _year_first(match: re.Match[str]) -> list[str] | None:
    month, day = int(match["month"]), int(match["day"])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return [MONTHS[month - 1], *numbers.ordinal(match["day"]), *numbers.year(match["year"])]


def _stamp(match: re.Match[str]) -> list[str] | None:
    """A date and time of ISO 8601."""
    words = _year_first(match)
    if words is None:
        return None
    words += [
        PAUSE_MARK,
        *clock(int(match["hour"]), int(match["minute"]), seconds=match["second"] or ""),
    ]
    zone = match["zone"] or ""
    if zone == "Z":
        return [*words, "u", "t", "c"]
    sign = [{"+": "plus", "-": "minus"}[zone[0]]] if zone else []
    hours = numbers.cardinal(zone[1:3]) if zone else []
    minutes = numbers.cardinal(zone[-2:]) if zone and zone[-2:] != "00" else []
    return [*words, *sign, *hours, *minutes]


def _slash_date(match: re.Match[str]) -> list[str]:
    return [MONTHS[int(match["month"]) - 1], *numbers.ordinal(match["day"])]


def _slash_day_first(match: re.Match[str]) -> list[str]:
    return ["the", *numbers.ordinal(match["day"]), "of", MONTHS[int(match["month"]) - 1]]


def _counted(number: str) -> list[str]:
    return numbers.year(number) if len(number) == 4 else numbers.room(number)


def _era(match: re.Match[str]) -> list[str]:
    return [*_counted(match["number"]), *_ERAS[match["era"].replace(".", "").upper()].split()]


def _quarter(match: re.Match[str]) -> list[str]:
    year = match["year"]
    when = numbers.year(year) if len(year) == 4 else numbers.pair(int(year))
    return ["the", _QUARTERS[match["quarter"]], "quarter", "of", *when]


def _weekday(match: re.Match[str]) -> list[str]:
    return [WEEKDAYS[match["day"]], *((PAUSE_MARK,) if "," in match[0] else ())]


@cache
def dates(day_first: bool) -> tuple[Rule, ...]:
    """The rules of dates; day_first: whether 3/4 is the third of April."""
    return (*_WRITTEN[:4], *_digits(day_first), *_WRITTEN[4:])


def _digits(day_first: bool) -> tuple[Rule, ...]:
    """A date between slashes, points or hyphens; with points the day comes first everywhere."""
    two = r"(?P<first>[0-3]?\d){0}(?P<second>[0-3]?\d){0}(?P<year>{1})(?![\w/-])"
    four, any_year = r"[12]\d\d\d", r"[12]\d\d\d|\d\d"
    return (
        *(_DAY_MONTH if day_first else _MONTH_DAY),
        rule(EDGE + two.format("/", any_year), lambda m: _in_digits(m, day_first), needs="/"),
        rule(EDGE + two.format(r"\.", four), lambda m: _in_digits(m, True), needs="."),
        rule(EDGE + two.format("-", four), lambda m: _in_digits(m, day_first), needs="-"),
    )


_ON = ("on", "until", "till", "due", "since", "dated", "through")
_MONTH_DAY = (
    rule(
        rf"{EDGE}(?P<month>[1-9]|1[0-2])/(?P<day>1[3-9]|2\d|3[01])(?![\w/-]){_SIZES}",
        _slash_date,
        needs="/",
    ),
    rule(
        rf"{behind(_ON)}(?P<month>0?[1-9]|1[0-2])/(?P<day>0?[1-9]|1[0-2])(?![\w/-]){_SIZES}",
        _slash_date,
        needs="/",
    ),
)
_DAY_MONTH = (
    rule(
        rf"{EDGE}(?P<day>1[3-9]|2\d|3[01])/(?P<month>[1-9]|1[0-2])(?![\w/-]){_SIZES}",
        _slash_day_first,
        needs="/",
    ),
    rule(
        rf"{behind(_ON)}(?P<day>0?[1-9]|1[0-2])/(?P<month>0?[1-9]|1[0-2])(?![\w/-]){_SIZES}",
        _slash_day_first,
        needs="/",
    ),
)
_WRITTEN: tuple[Rule, ...] = (
    rule(
        rf"{EDGE}(?P<year>[12]\d\d\d)-(?P<month>\d\d)-(?P<day>\d\d)[T ](?P<hour>[01]\d|2[0-4])"
        r":(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:\.\d{1,9})?)?"
        r"(?P<zone>Z|[+-]\d\d:?\d\d)?(?!\w)",
        _stamp,
        needs=":",
    ),
    rule(
        rf"{EDGE}(?P<year>[12]\d\d\d)-(?P<month>[01]?\d)-(?P<day>[0-3]?\d)(?![\w-])",
        _year_first,
        needs="-",
    ),
    rule(
        rf"{EDGE}(?P<year>[12]\d\d\d)/(?P<month>[01]?\d)/(?P<day>[0-3]?\d)(?![\w/-])",
        _year_first,
        needs="/",
    ),
    rule(
        rf"(?<!\w)(?P<day>{alternatives(list(WEEKDAYS))})\b\.?,?"
        rf"(?= (?:(?:{alternatives([m.capitalize() for m in _MONTH_NAMES])})\b|(?:at )?\d|the \d))",
        _weekday,
        needs="MTWFS",
    ),
    rule(
        rf"(?<![\w-]){_MONTH} {_DAY} ?- ?(?P<last>0?[1-9]|[12]\d|3[01]){_TH}(?:,? {YEAR})?{STOP}",
        _month_day,
        needs="-",
    ),
    rule(rf"(?<![\w-]){_MONTH} {_DAY}{_TH}(?:,? {YEAR})?{STOP}", _month_day),
    rule(
        rf"{EDGE}(?P<the>(?:on )?the )?{_DAY} ?- ?(?P<last>[12]\d|3[01]|0?[1-9]){_TH} {_MONTH}"
        rf"(?:,? {YEAR})?(?!\w)",
        _day_month,
        re.IGNORECASE,
        needs="-",
    ),
    rule(
        rf"{EDGE}(?P<the>(?:on )?the )?{_DAY}{_TH}(?: of)? {_MONTH}(?:,? {YEAR})?(?!\w)",
        _day_month,
        re.IGNORECASE,
    ),
    rule(
        rf"{EDGE}(?P<number>\d{{1,2}})(?:st|nd|rd|th) c\.(?!\w)",
        lambda m: [*numbers.ordinal(m["number"]), "century"],
        needs="c",
    ),
    rule(rf"(?<![\w-]){_MONTH}-{_DAY}(?:-{YEAR})?{STOP}", _dashed, needs="-"),
    rule(rf"{EDGE}{_DAY}-{_MONTH}-{YEAR}{STOP}", _dashed, needs="-"),
    rule(rf"(?<![\w-]){_MONTH},? {YEAR}{STOP}", lambda m: [_month(m), *numbers.year(m["year"])]),
    rule(
        r"(?<![\w.$€£/])(?<!\d-)'?(?P<digits>[12]\d\d0(?: (?=s))?|[2-9]0)'?s\b",
        lambda m: numbers.decade(m["digits"].strip()),
        needs="s",
    ),
    rule(r"(?<!\w)(?P<quarter>[1-4])Q ?'?(?P<year>\d\d|20\d\d)(?!\w)", _quarter, needs="Q"),
    rule(
        rf"{EDGE}(?P<number>\d{{1,4}}) ?(?P<era>A\.D\.?|B\.C\.E\.?|B\.C\.?|C\.E\.?|AD|BCE|BC|CE)"
        r"(?!\w)",
        _era,
        needs="DC",
    ),
    rule(
        r"(?<!\w)A\.?D\.? (?P<number>\d{1,4})(?!\w|[.,/-]\d)",
        lambda m: [*_ERAS["AD"].split(), *_counted(m["number"])],
        needs="A",
    ),
)
_SPANNED = alternatives(list(_DAYS_AND_MONTHS))
SPANS: tuple[Rule, ...] = (
    rule(
        rf"(?<![\w-])(?P<from>{_SPANNED})\.? ?- ?(?P<to>{_SPANNED})\b(?![-\w])",
        lambda m: [_DAYS_AND_MONTHS[m["from"]], "to", _DAYS_AND_MONTHS[m["to"]]],
        literal="-",
    ),
)


# Years by themselves, and spans of them.


# Words before numbers such as 1066 that make years of them.
_IN = listing("in since until till by from of year before after circa between and to around")


def _years(match: re.Match[str]) -> list[str] | None:
    later = match["later"]
    if len(later) == 4 and int(later) < int(match["year"]):
        return None
    end = numbers.year(later) if len(later) == 4 else numbers.pair(int(later))
    return [*numbers.year(match["year"]), "to", *end]


def _season(match: re.Match[str]) -> list[str] | None:
    """ "2023/24", a season or a financial year."""
    if (int(match["year"]) + 1) % 100 != int(match["later"]):
        return None
    return [*numbers.year(match["year"]), *numbers.pair(int(match["later"]))]


def _year(match: re.Match[str]) -> list[str]:
    return numbers.year(match["year"])


YEARS: tuple[Rule, ...] = (
    rule(
        rf"{EDGE}{YEAR} ?- ?(?P<later>[12]\d\d\d)(?![\w/-]|[.,]\d| ?(?:kg|km|g|m|percent)\b)",
        _years,
        needs="-",
    ),
    rule(rf"{EDGE}{YEAR}-(?P<later>\d\d)(?![\w/-]|[.,]\d)", _years, needs="-"),
    rule(rf"{EDGE}{YEAR}/(?P<later>\d\d)(?![\w/-])", _season, needs="/"),
    rule(rf"(?=10\d\d){behind(_IN)}(?P<year>10\d\d){STOP}", _year),
    rule(r"(?<=\()(?P<year>10\d\d)(?=\))", _year, needs="("),
    rule(rf"(?=10\d\d)(?:(?<=\bc\. )|(?<=\bca\. ))(?P<year>10\d\d){STOP}", _year),
    rule(rf"{EDGE}(?P<year>1[1-9]\d\d|20\d\d){STOP}", _year),
)
