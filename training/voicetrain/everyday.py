"""A generator of everyday sentences: what assistants, shops, timetables and friends say."""

import random
import re
from collections.abc import Callable
from importlib import resources

_SLOT = re.compile(r"\{(\w+)\}")
_SECTION = re.compile(r"^\[(\w+)\]$")


def _tables() -> dict[str, list[str]]:
    """The word lists and templates of data/everyday.txt by section."""
    text = resources.files("voicetrain").joinpath("data", "everyday.txt").read_text("utf-8")
    tables: dict[str, list[str]] = {}
    section = ""
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section = match.group(1)
            tables[section] = []
        elif line:
            separator = None if section == "template" else "|"
            parts = [line] if separator is None else line.split(separator)
            tables[section] += [part.strip() for part in parts]
    return tables


def _number(r: random.Random) -> str:
    return str(r.choice((r.randrange(2, 20), r.randrange(20, 100), r.randrange(100, 1000))))


def _large(r: random.Random) -> str:
    value = r.choice((r.randrange(1000, 10_000), r.randrange(10_000, 10_000_000)))
    return f"{value:,}"


def _clock(r: random.Random) -> str:
    hour, minute = r.randrange(1, 13), r.choice((0, 5, 10, 15, 20, 25, 30, 40, 45, 50, 55))
    if minute == 0:
        return r.choice((f"{hour} o'clock", f"{hour} p.m.", f"{hour} a.m."))
    return f"{hour}:{minute:02d}" + r.choice(("", "", " a.m.", " p.m."))


def _money(r: random.Random) -> str:
    whole = r.choice((r.randrange(1, 20), r.randrange(20, 1000), r.randrange(1, 60) * 100))
    return f"${whole:,}" + r.choice(("", "", f".{r.randrange(1, 100):02d}"))


def _ordinal(r: random.Random) -> str:
    value = r.randrange(1, 32)
    teen = 10 < value < 14
    return f"{value}" + ("th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th"))


def _decimal(r: random.Random) -> str:
    return f"{r.randrange(0, 100)}.{r.randrange(1, 10)}"


def _year(r: random.Random) -> str:
    return str(r.choice((r.randrange(1700, 2000), r.randrange(2000, 2031))))


def _digits(r: random.Random) -> str:
    spoken = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    groups = [" ".join(r.choice(spoken) for _ in range(n)) for n in (3, r.choice((3, 4)))]
    return ", ".join(groups)


def _street_number(r: random.Random) -> str:
    return str(r.randrange(1, 400))


_NUMBERS: dict[str, Callable[[random.Random], str]] = {
    "number": _number,
    "large": _large,
    "clock": _clock,
    "money": _money,
    "ordinal": _ordinal,
    "decimal": _decimal,
    "year": _year,
    "digits": _digits,
    "house": _street_number,
}


def _fill(template: str, tables: dict[str, list[str]], r: random.Random) -> str:
    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in _NUMBERS:
            return _NUMBERS[name](r)
        return _fill(r.choice(tables[name]), tables, r)

    return _SLOT.sub(value, template)


def everyday_sentences(count: int, generator: random.Random) -> list[str]:
    """`count` different sentences. Raises ValueError when the grammar cannot give as many."""
    tables = _tables()
    templates = tables["template"]
    found: dict[str, None] = {}
    for attempt in range(count * 20):
        text = _fill(templates[attempt % len(templates)], tables, generator)
        found[text[0].upper() + text[1:]] = None
        if len(found) == count:
            return list(found)
    raise ValueError(f"the grammar gave only {len(found)} of {count} sentences")
