"""Percentages, units, fractions, ranges, telephone numbers, and numbers by themselves."""

import re

from talker.text import numbers
from talker.text.rules import PAUSE_MARK, Rule, alternatives, rule
from talker.text.shapes import (
    EDGE,
    MINUS,
    NUMBER,
    RANGE,
    SCALE_NAMES,
    WHOLE,
    scaled,
    signed,
    spoken_range,
)
from talker.text.tables import collection, table

_UNITS = table(
    """
    km: kilometer, cm: centimeter, mm: millimeter, m: meter, nm: nanometer, mi: mile, yd: yard,
    ft: foot, in: inch, sq ft: square foot, kg: kilogram, g: gram, mg: milligram, lb: pound,
    lbs: pound, oz: ounce, tsp: teaspoon, tbsp: tablespoon, t: ton, ml: milliliter,
    mL: milliliter, l: liter, L: liter,
    gal: gallon, ha: hectare, kB: kilobyte, KB: kilobyte, MB: megabyte, GB: gigabyte,
    TB: terabyte, PB: petabyte, MiB: mebibyte, GiB: gibibyte, Hz: hertz, kHz: kilohertz,
    MHz: megahertz, GHz: gigahertz, kbps: kilobit per second, Mbps: megabit per second,
    Gbps: gigabit per second, mph: mile per hour, km/h: kilometer per hour,
    kph: kilometer per hour, m/s: meter per second, W: watt, kW: kilowatt, MW: megawatt,
    GW: gigawatt, kWh: kilowatt hour, V: volt, mV: millivolt, mA: milliamp, mAh: milliamp hour,
    dB: decibel, kJ: kilojoule, kcal: kilocalorie, cal: calorie, Pa: pascal, hPa: hectopascal,
    kPa: kilopascal, psi: p s i, rpm: r p m, bpm: b p m, fps: frame per second, px: pixel,
    dpi: d p i, min: minute, mins: minute, hr: hour, hrs: hour, h: hour, s: second, sec: second,
    secs: second, ms: millisecond, ns: nanosecond, us: microsecond, yr: year, yrs: year,
    wk: week, mo: month, N: newton, A: amp, microm: micrometer, micros: microsecond,
    microg: microgram
    """
)
_UNCHANGED = collection("hertz kilohertz megahertz gigahertz p s i r b d m")
_SPACED_UNITS = alternatives(
    [u for u in _UNITS if u not in ("in", "us", "A", "t", "mo", "s", "h", "N", "yr")]
)
_GLUED_UNITS = alternatives([u for u in _UNITS if u not in ("A", "us", "mo", "t")])
_PER = (
    "yr|year|mo|month|wk|week|day|hr|hour|h|min|minute|sec|second|s|person|night|kg|lb|mile|km|kWh"
)
_FRACTION = (
    r"(?<![\w.,/])(?:(?P<whole>\d{1,4}) )?(?P<top>\d{1,2})"
    r"/(?P<bottom>[2-9]|1[0-9]|32|64|100)(?![\w/])"
)


def _plural(name: str) -> list[str]:
    first, *rest = name.split()
    if first == "square":
        return [first, *_plural(rest[0])]
    if rest == ["hour"]:
        return [first, "hours"]
    if first == "foot":
        first = "feet"
    elif first not in _UNCHANGED:
        first += "es" if first.endswith("ch") else "s"
    return [first, *rest]


def unit(name: str, one: bool = False) -> list[str]:
    """The spoken name of a unit's symbol, in the singular for exactly one."""
    return _UNITS[name].split() if one else _plural(_UNITS[name])


def _measure(match: re.Match[str]) -> list[str]:
    words, scale = scaled(match)
    if scale is not None:
        words.append(scale)
    return [*words, *unit(match["unit"], one=match["number"] == "1" and scale is None)]


def _per(match: re.Match[str]) -> list[str]:
    """What follows an amount: "$5/hr"."""
    return ["per", *(unit(match["unit"], one=True) if match["unit"] in _UNITS else [match["unit"]])]


def _measure_range(match: re.Match[str]) -> list[str]:
    return [*spoken_range(match), *unit(match["unit"])]


def _percent(match: re.Match[str]) -> list[str]:
    return [*signed(match), "percent"]


def _percent_range(match: re.Match[str]) -> list[str]:
    return [*spoken_range(match), "percent"]


def _degrees(match: re.Match[str]) -> list[str]:
    scales = {"C": ["celsius"], "F": ["fahrenheit"], "K": ["kelvin"], None: []}
    name = "degree" if match["number"] == "1" else "degrees"
    return [*signed(match), name, *scales[match["degrees"]]]


def _feet_inches(match: re.Match[str]) -> list[str]:
    return [*numbers.cardinal(match["feet"]), "foot", *numbers.cardinal(match["inches"])]


def _ordinal(match: re.Match[str]) -> list[str]:
    return numbers.ordinal(match["number"])


def _fraction(match: re.Match[str]) -> list[str]:
    words = numbers.fraction(match["top"], match["bottom"])
    if match["whole"] is None:
        return words
    part = ["a", *words[1:]] if match["top"] == "1" else words
    return [*numbers.cardinal(match["whole"]), "and", *part]


def _part_measure(match: re.Match[str]) -> list[str]:
    return [*_fraction(match), *unit(match["unit"], one=match["whole"] is None)]


def _telephone(match: re.Match[str]) -> list[str]:
    words: list[str] = ["plus"] if match[0].startswith("+") else []
    for group in re.findall(r"\d+", match[0]):
        words += [*(["eight", "hundred"] if group == "800" else numbers.digits(group)), PAUSE_MARK]
    return words[:-1]


def _pair(match: re.Match[str]) -> list[str]:
    """Such as "24/7" and "9/11", which are said as two numbers."""
    first, _, second = match["number"].partition("/")
    return [*numbers.cardinal(first), *numbers.cardinal(second)]


def _picture_width(match: re.Match[str]) -> list[str]:
    return [*numbers.cardinal(match["number"]), "k"]


def _times(match: re.Match[str]) -> list[str]:
    return [*signed(match), "times"]


def _by(match: re.Match[str]) -> list[str]:
    return [*numbers.cardinal(match["low"]), "by", *numbers.cardinal(match["high"])]


def _out_of(match: re.Match[str]) -> list[str]:
    """Equal numbers on both sides of a slash: "10/10", but "50/50" and "20/20" as pairs."""
    number = numbers.cardinal(match["number"])
    return [*number, *(("out", "of") if match["number"] not in ("20", "50") else ()), *number]


def _groups(match: re.Match[str]) -> list[str]:
    """Digits in groups, as in an ISBN."""
    words: list[str] = []
    for group in match["number"].split("-"):
        words += [*numbers.digits(group), PAUSE_MARK]
    return words[:-1]


def _spelled(match: re.Match[str]) -> list[str]:
    return numbers.digits(match["number"])


def _code(match: re.Match[str]) -> list[str]:
    """Four digits behind letters, as in "AA1234": "twelve thirty four"."""
    first, second = match["number"][:2], match["number"][2:]
    return [*numbers.cardinal(first), *numbers.cardinal(second)]


def _room(match: re.Match[str]) -> list[str]:
    """A label such as a room or a flight: "101" is "one oh one", "370" is "three seventy"."""
    text = match["number"]
    head, tail = numbers.cardinal(text[:-2]), int(text[-2:])
    return [*head, *numbers.pair(tail)] if tail else [*head, "hundred"]


def _scaled_number(match: re.Match[str]) -> list[str]:
    words, scale = scaled(match)
    return [*words, scale] if scale else words


def _dotted(match: re.Match[str]) -> list[str]:
    words: list[str] = []
    for group in match["number"].split("."):
        words += [*(numbers.cardinal(group) if len(group) < 4 else numbers.digits(group)), "dot"]
    return words[:-1]


def _plain(match: re.Match[str]) -> list[str]:
    text = match["number"]
    whole = text.partition(".")[0]
    if (len(whole) > 1 and whole[0] == "0") or ("," not in text and len(whole) > 9):
        words = numbers.digits(whole)
        rest = numbers.decimal(text[len(whole) :]) if "." in text else []
        return (["minus"] if match["minus"] else []) + words + rest
    return signed(match)


LABELS: tuple[Rule, ...] = (
    rule(r"(?<![\w.])(?P<number>\d{1,3}(?:\.\d{1,3}){3})(?![\w.]\d)", _dotted),
    rule(
        r"(?<![\w.])(?:\+?\d{1,3}[ .-]?)?(?:\(\d{3}\) ?|\d{3}[.-])\d{3}[ .-]\d{4}(?![\w-])"
        r"|(?<![\w.])\+\d{1,3}(?:[ -]\d{2,5}){2,5}(?![\w-])"
        r"|(?<![\w.-])\d{3}-\d{4}(?![\w-])",
        _telephone,
    ),
    rule(
        r"(?i:(?<=\bcode )|(?<=\bcode is )|(?<=\bpin )|(?<=\bpin is )"
        r"|(?<=\botp )|(?<=\botp is )|(?<=\bzip )|(?<=\bext\. )"
        r"|(?<=\bextension )|(?<=, [A-Z]{2} ))(?P<number>\d{3,10})(?!\w|,\d)",
        _spelled,
    ),
    rule(
        r"(?i:(?<=\broom )|(?<=\bflight )|(?<=\broute )|(?<=\bhighway )|(?<=\bapartment )"
        r"|(?<=\bsuite )|(?<=\bboeing ))(?P<number>[1-9]\d{2,3})(?!\w|,\d)",
        _room,
    ),
)
AMOUNTS: tuple[Rule, ...] = (
    rule(rf"{EDGE}{RANGE} ?%", _percent_range),
    rule(rf"{EDGE}{MINUS}{NUMBER} ?%", _percent),
    rule(rf"{EDGE}{MINUS}{NUMBER} degrees(?: (?P<degrees>[CFK]))?(?!\w)", _degrees),
    rule(r"(?<![\w.])(?P<feet>[3-8])'(?P<inches>\d\d?)(?:\"|'')?(?!\w)", _feet_inches),
    rule(rf"{_FRACTION} (?P<unit>{_SPACED_UNITS})(?![\w/])(?:\.(?= [a-z0-9]))?", _part_measure),
    rule(rf"{EDGE}{RANGE} ?(?P<unit>{_SPACED_UNITS})(?![\w/])", _measure_range),
    rule(
        rf"{EDGE}{MINUS}{NUMBER}(?: (?P<scale>{SCALE_NAMES}))?"
        rf"(?: (?P<unit>{_SPACED_UNITS}|in(?=\.)))(?!\w|'|\.\w|/(?!(?:{_PER})\b))"
        r"(?:\.(?= [a-z0-9]))?",
        _measure,
    ),
    rule(rf"{EDGE}{MINUS}{NUMBER}(?P<unit>{_GLUED_UNITS})(?!\w|'|/(?!(?:{_PER})\b))", _measure),
    rule(r"(?<![\w.,/-])(?P<low>\d{1,4})x(?P<high>\d{1,4})(?!\w)", _by),
    rule(rf"{EDGE}{NUMBER} ?x(?= ?\d| [a-z]{{2}}|[,.;!?/]|$)", _times),
    rule(rf"(?<=\x00)/(?P<unit>{_PER})(?!\w)", _per),
)
NUMBERS: tuple[Rule, ...] = (
    rule(rf"{EDGE}(?P<number>{WHOLE})(?:st|nd|rd|th|ST|ND|RD|TH)\b", _ordinal),
    rule(rf"{EDGE}(?P<number>24/7|9/11)(?![\w/])", _pair),
    rule(rf"{EDGE}(?P<number>\d{{1,3}})/(?P=number)(?![\w/])", _out_of),
    rule(r"(?<![\w.,/-])(?P<number>\d{1,9}(?:-\d{1,9}){2,6})(?![\w/-])", _groups),
    rule(_FRACTION, _fraction),
    rule(rf"(?<![\w.,/-]){RANGE}(?![\w/-])", spoken_range),
    rule(r"(?<![\w.])(?P<number>\d{1,4}(?:\.\d{1,4}){2,6})(?!\w)", _dotted),
    rule(r"(?<![\w.,-])(?P<number>911)(?!\w|[,.-]\d)", _spelled),
    rule(rf"{EDGE}(?P<number>[248])K(?!\w)", _picture_width),
    rule(rf"{EDGE}{MINUS}(?P<number>\d{{1,3}}(?:\.\d+)?)(?P<mark>k|K|M|bn)(?!\w)", _scaled_number),
    rule(r"(?<=[A-Za-z])(?P<number>[1-9]\d[1-9]\d)(?![\w.])", _code),
    rule(rf"{MINUS}{NUMBER}", _plain),
)
