"""Years by themselves, and spans of them."""

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.dates import EDGE, STOP, YEAR
from ttsfamilies.base.text.rules import Rule, behind, rule
from ttsfamilies.base.text.tables import listing

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
