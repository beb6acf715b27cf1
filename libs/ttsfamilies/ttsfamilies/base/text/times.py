"""Times of day and spans written with colons."""

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.rules import Rule, before, rule
from ttsfamilies.base.text.words import letter, spell

_EDGE = r"(?<![\w.$€£/:])"
_HALF = r"(?P<half>[AaPp])(?:\.[Mm]\b\.?|[Mm]\b)"
_NAMES = "UTC|GMT|BST|EST|EDT|CST|CDT|MST|MDT|PST|PDT|CET|CEST|IST|JST|AEST|ET|PT"
_DOTTED = r"[EeCcMmPp]\.[SsDd]\.[Tt]\.?"
_ZONE = rf"(?: ?(?P<zone>(?:{_NAMES})\b|(?:est|edt|cst|cdt|mst|mdt|pst|pdt|utc|gmt)\b|{_DOTTED}))"
# Before these a number with two colons is a time of day, otherwise a span.
_AT = re.compile(
    r"\b(?:at|by|until|till|since|from|before|after|around|about)[ ,]*$", re.IGNORECASE
)


def half_and_zone(match: re.Match[str]) -> list[str]:
    """ "p m" and the letters of a zone, where a match has them."""
    groups = match.groupdict()
    words = [letter(groups["half"]), "m"] if groups.get("half") else []
    return words + spell(groups.get("zone") or "")


def _counted(number: int, name: str) -> list[str]:
    return [*numbers.cardinal(str(number)), name if number == 1 else name + "s"]


def _span(hours: int, minutes: int, seconds: int) -> list[str]:
    parts = [_counted(hours, "hour"), _counted(minutes, "minute")]
    return [*parts[0], *parts[1], "and", *_counted(seconds, "second")]


def clock(hour: int, minute: int, *, half: bool = False, seconds: str = "") -> list[str]:
    """A time of day: "three oh five", "seventeen hundred", "twelve thirty a m" for 00:30."""
    if hour == 0 and not half:
        return ["midnight"] if not minute else ["twelve", *numbers.pair(minute), "_a", "m"]
    words = numbers.cardinal(str(hour))
    if minute:
        words += numbers.pair(minute)
    elif hour > 12:
        words += ["hundred"]
    elif not half:
        words += ["o'clock"]
    if seconds.strip("0"):
        words += ["and", *_counted(int(seconds), "second")]
    return words


def _clock(match: re.Match[str]) -> list[str]:
    hour, minute, second = int(match["hour"]), int(match["minute"]), match["second"]
    said = bool(match["half"] or match["zone"])
    timed = said or _AT.search(before(match)) is not None
    if second and second != "00" and not timed:
        return _span(hour, minute, int(second))
    if hour == 0 and len(match["hour"]) == 1 and not timed:
        return ["zero", *numbers.pair(minute)]
    return clock(hour, minute, half=bool(match["half"]), seconds=second or "") + half_and_zone(
        match
    )


def _pointed(match: re.Match[str]) -> list[str]:
    """ "10.30am"."""
    return clock(int(match["hour"]), int(match["minute"]), half=True) + half_and_zone(match)


def _hours(match: re.Match[str]) -> list[str]:
    """ "9-5pm": what follows the second hour holds for both."""
    return [
        *numbers.cardinal(match["first"]),
        "to",
        *numbers.cardinal(match["hour"]),
        *half_and_zone(match),
    ]


TIMES: tuple[Rule, ...] = (
    rule(
        rf"{_EDGE}(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?:\.\d{{3}})?"
        rf"(?: ?{_HALF})?{_ZONE}?(?![\w:])",
        _clock,
        needs=":",
    ),
    rule(
        rf"{_EDGE}(?P<hour>1[0-2]|0?[1-9])\.(?P<minute>[0-5]\d) ?{_HALF}{_ZONE}?(?!\w)",
        _pointed,
        needs="mM",
    ),
    rule(
        rf"{_EDGE}(?P<first>1[0-2]|[1-9]) ?- ?(?P<hour>1[0-2]|0?[1-9]) ?{_HALF}{_ZONE}?(?!\w)",
        _hours,
        needs="mM",
    ),
    rule(
        rf"{_EDGE}(?P<hour>1[0-2]|0?[1-9]) ?{_HALF}{_ZONE}?(?!\w)",
        lambda m: numbers.cardinal(m["hour"]) + half_and_zone(m),
        needs="mM",
    ),
)
