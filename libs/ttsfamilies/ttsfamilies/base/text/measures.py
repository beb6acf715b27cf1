"""Measures: units, percentages, degrees, sizes, and what stands "per" something."""

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.quantities import (
    EDGE,
    FRACTION,
    MINUS,
    NUMBER,
    RANGE,
    SCALE_NAMES,
    SPACED,
    mixed,
    scaled,
    signed,
    spoken_range,
)
from ttsfamilies.base.text.rules import Rule, alternatives, before, collection, rule, table

_LENGTHS = table(
    "km: kilometer, cm: centimeter, mm: millimeter, m: meter, mi: mile, yd: yard, ft: foot,"
    "in: inch, nm: nanometer, dm: decimeter"
)
UNITS = {
    **_LENGTHS,
    **{f"sq {short}": f"square {name}" for short, name in _LENGTHS.items()},
    **{f"cu {short}": f"cubic {name}" for short, name in _LENGTHS.items()},
    **{short + "2": f"square {name}" for short, name in _LENGTHS.items()},
    **{short + "^2": f"square {name}" for short, name in _LENGTHS.items()},
    **{short + "3": f"cubic {name}" for short, name in _LENGTHS.items()},
    **{short + "^3": f"cubic {name}" for short, name in _LENGTHS.items()},
    **table(
        """
        kg: kilogram, KG: kilogram, Kg: kilogram, g: gram, mg: milligram, mcg: microgram,
        lb: pound, lbs: pound, oz: ounce, fl oz: fluid ounce, st: stone, tsp: teaspoon,
        tbsp: tablespoon, t: ton, ml: milliliter, mL: milliliter, cl: centiliter, l: liter,
        L: liter, dl: deciliter, gal: gallon, qt: quart, pt: pint, ha: hectare, kB: kilobyte,
        KB: kilobyte, MB: megabyte, GB: gigabyte, TB: terabyte, PB: petabyte, MiB: mebibyte,
        GiB: gibibyte, KiB: kibibyte, TiB: tebibyte, Hz: hertz, kHz: kilohertz, MHz: megahertz,
        GHz: gigahertz, THz: terahertz, kbps: kilobit per second, Kbps: kilobit per second,
        Mbps: megabit per second, mbps: megabit per second, Gbps: gigabit per second,
        gbps: gigabit per second, MB/s: megabyte per second, GB/s: gigabyte per second,
        mph: mile per hour, MPH: mile per hour, km/h: kilometer per hour,
        kmh: kilometer per hour, kph: kilometer per hour, m/s: meter per second,
        ft/s: foot per second, m/s2: meter per second squared, m/s^2: meter per second squared,
        W: watt, mW: milliwatt, kW: kilowatt, MW: megawatt,
        GW: gigawatt, Wh: watt hour, kWh: kilowatt hour, MWh: megawatt hour, V: volt, kV: kilovolt,
        mV: millivolt, mA: milliamp, mAh: milliamp hour, Ah: amp hour, dB: decibel, kJ: kilojoule,
        MJ: megajoule, kcal: kilocalorie, cal: calorie, Pa: pascal, hPa: hectopascal,
        kPa: kilopascal, MPa: megapascal, mbar: millibar, psi: p s i, rpm: r p m, RPM: r p m,
        bpm: b p m, fps: frame per second, px: pixel, dpi: d p i, ppm: part per million,
        min: minute, mins: minute, hr: hour, hrs: hour, h: hour, s: second, sec: second,
        secs: second, ms: millisecond, ns: nanosecond, us: microsecond, yr: year, yrs: year,
        wk: week, wks: week, mo: month, mos: month, N: newton, kN: kilonewton, Nm: newton meter,
        A: amp, microm: micrometer, micros: microsecond, microg: microgram, microl: microliter,
        mmHg: millimeter of mercury, mol: mole, mmol: millimole, pcs: piece, pc: piece, pp: point,
        hp: horsepower, lx: lux, lm: lumen, cc: c c, omega: ohm, ly: light year, doz: dozen
        """
    ),
}
"""Units by their symbols; what they are called for exactly one."""
_UNCHANGED = collection(
    "hertz kilohertz megahertz gigahertz terahertz horsepower lux dozen p r b d c"
)
# "sq. yd." as well; the last full stop may be the sentence's.
_SPACED = alternatives(
    [u for u in UNITS if u not in ("in", "us", "A", "t", "mo", "s", "h", "N", "yr", "st", "pp")]
).replace("\\ ", r"\.? ")
_GLUED = alternatives([u for u in UNITS if u not in ("A", "us", "mo", "t", "st")])
_PER = (
    "yr|year|mo|month|wk|week|day|d|hr|hour|h|min|minute|sec|second|s|person|night|kg|lb|mile|mi|km"
    "|kWh|m2|m\\^2|sq ft|user|seat|unit|head|liter|gal|gallon|capita|L|l|ml|mL|dL|GB|100 ?km|100"
)
_QUOTED = 200
_PER_NAMES = {"d": "day", "100": "hundred", "100km": "hundred kilometers"}
_SCALES = {"C": ["celsius"], "F": ["fahrenheit"], "K": ["kelvin"], None: []}


def _plural(name: str) -> list[str]:
    first, *rest = name.split()
    if first in (
        "square",
        "cubic",
        "fluid",
        "light",
        "newton",
        "watt",
        "kilowatt",
        "megawatt",
    ) and (rest):
        return [first, *_plural(" ".join(rest))]
    if rest == ["hour"]:
        return [first, "hours"]
    if first == "foot":
        first = "feet"
    elif first not in _UNCHANGED:
        first += "es" if first.endswith("ch") else "s"
    return [first, *rest]


def unit(name: str, one: bool = False) -> list[str]:
    """The spoken name of a unit's symbol, in the singular for exactly one."""
    known = UNITS[" ".join(name.replace(".", " ").split())]
    return known.split() if one else _plural(known)


def _measure(match: re.Match[str]) -> list[str]:
    words, scale = scaled(match)
    if scale is not None:
        words.append(scale)
    one = match["number"] == "1" and scale is None
    return [*words, *unit(match["unit"], one=one or match.groupdict().get("gap") == "-")]


def _per_name(name: str) -> list[str]:
    if name in UNITS:
        return unit(name, one=True)
    return _PER_NAMES.get(name.replace(" ", ""), name).split()


def _per(match: re.Match[str]) -> list[str]:
    """What follows an amount: "$5/hr"."""
    return ["per", *_per_name(match["unit"])]


def _decimal_comma(match: re.Match[str]) -> list[str]:
    """ "3,5 %": where thousands would have three digits, the comma is a point."""
    sign = ["minus"] if match["minus"] else []
    number = numbers.decimal(match["number"].replace(",", "."))
    name = match["unit"]
    return [*sign, *number, *(["percent"] if name == "%" else unit(name))]


def _spaced_thousands(match: re.Match[str]) -> list[str]:
    """ "12 345 km"."""
    number = match["number"].replace(" ", "").replace(",", ".")
    return [*numbers.decimal(number), *unit(match["unit"])]


def _degrees(match: re.Match[str]) -> list[str]:
    name = "degree" if match["number"] == "1" else "degrees"
    return [*signed(match), name, *_SCALES[match["degrees"]]]


def _place(match: re.Match[str]) -> list[str]:
    """A latitude or a longitude: 51 degrees 30' N."""
    minutes = ["minutes"] if match["minutes"] != "1" else ["minute"]
    names = {"N": "north", "S": "south", "E": "east", "W": "west"}
    words = [*numbers.cardinal(match["number"]), "degrees"]
    words += [*numbers.cardinal(match["minutes"]), *minutes]
    if match["seconds"]:
        words += [*numbers.decimal(match["seconds"]), "seconds"]
    return [*words, names[match["side"]]] if match["side"] else words


def _feet_inches(match: re.Match[str]) -> list[str]:
    return [*numbers.cardinal(match["feet"]), "foot", *numbers.cardinal(match["inches"])]


def _inches(match: re.Match[str]) -> list[str] | None:
    """A double quote behind a number, unless it closes a quotation."""
    if before(match, _QUOTED).count('"') % 2:
        return None
    return [*signed(match), "inch" if match["number"] == "1" else "inches"]


def _side(text: str) -> list[str]:
    return numbers.room(text) if len(text) == 4 and text.isdigit() else numbers.decimal(text)


def _stars(match: re.Match[str]) -> list[str]:
    """A rating: "★★★★☆" is "four out of five stars"."""
    full, empty = len(match["full"]), len(match["empty"])
    whole = ["out", "of", *numbers.cardinal(str(full + empty))] if empty else []
    name = "star" if full + empty == 1 else "stars"
    return [*numbers.cardinal(str(full)), *whole, name]


def _counted_stars(match: re.Match[str]) -> list[str]:
    return [*numbers.decimal(match["number"]), "star" if match["number"] == "1" else "stars"]


def _by(match: re.Match[str]) -> list[str]:
    """A size, "4x4" or "25 x 7 m"; what is written three times has three sides."""
    sides = re.split(r" ?(?:x|times) ?", match["sides"])
    words = _side(sides[0])
    for side in sides[1:]:
        words += ["by", *_side(side)]
    return [*words, *(unit(match["unit"]) if match["unit"] else ())]


STARS: tuple[Rule, ...] = (
    rule(r"(?P<full>★{2,10}(?!★)|★(?=☆))(?P<empty>☆{0,9})", _stars, literal="★"),
)
MEASURES: tuple[Rule, ...] = (
    rule(rf"{EDGE}{NUMBER} ?★", _counted_stars, needs="★"),
    rule(
        rf"{EDGE}(?P<number>{SPACED}(?:,\d{{1,2}})?) ?(?P<unit>{_SPACED})(?![\w/])",
        _spaced_thousands,
        needs=" ",
    ),
    rule(rf"{EDGE}{RANGE} ?%", lambda m: [*spoken_range(m), "percent"], needs="%"),
    rule(
        rf"{EDGE}{MINUS}(?P<number>\d{{1,3}},\d{{1,2}}) ?(?P<unit>%|{_SPACED})(?![\w/])",
        _decimal_comma,
        needs=",",
    ),
    rule(rf"{EDGE}{MINUS}{NUMBER} ?%", lambda m: [*signed(m), "percent"], needs="%"),
    rule(
        rf"{EDGE}(?P<number>\d{{1,3}}) degrees (?P<minutes>\d{{1,2}})'"
        r"(?: ?(?P<seconds>\d{1,2}(?:\.\d+)?)(?:\"|''))?(?: ?(?P<side>[NSEW])\b)?",
        _place,
        needs="'",
    ),
    rule(
        rf"{EDGE}{RANGE} degrees(?: (?P<degrees>[CFK]))?(?!\w)",
        lambda m: [*spoken_range(m), "degrees", *_SCALES[m["degrees"]]],
        needs="-",
    ),
    rule(rf"{EDGE}{MINUS}{NUMBER} degrees(?: (?P<degrees>[CFK]))?(?!\w)", _degrees),
    rule(
        r"(?<![\w.])(?P<feet>[1-9]\d?)'(?P<inches>\d\d?)(?:\"|'')?(?!\w|'\d)",
        _feet_inches,
        needs="'",
    ),
    rule(rf"{EDGE}{NUMBER}\"(?!\w)", _inches, needs='"'),
    rule(
        rf"{FRACTION}[ -](?P<unit>{_SPACED}|in)(?![\w/])(?:\.(?= [a-z0-9]))?",
        lambda m: [*mixed(m), *unit(m["unit"], one=m["whole"] is None)],
        needs="/",
    ),
    rule(
        rf"{EDGE}{RANGE} ?(?P<unit>{_SPACED})(?![\w/])(?:\.(?= [a-z0-9]))?",
        lambda m: [*spoken_range(m), *unit(m["unit"])],
        needs="-",
    ),
    rule(
        r"(?<![\w.,/-])(?P<sides>\d{1,5}(?:\.\d+)?(?: ?(?:x|times) ?\d{1,5}(?:\.\d+)?){1,2})"
        rf" (?P<unit>{_SPACED})(?![\w/])(?:\.(?= [a-z0-9]))?",
        _by,
        needs="xt",
    ),
    rule(
        r"(?<![\w.,/-])(?P<sides>\d{1,5}(?:\.\d+)?(?:x\d{1,5}(?:\.\d+)?){1,2})(?P<unit>(?!))?(?!\w)",
        _by,
        needs="x",
    ),
    rule(
        rf"{EDGE}{MINUS}{NUMBER}(?: (?P<scale>{SCALE_NAMES}))?"
        rf"(?:(?P<gap>[ -])(?P<unit>{_SPACED}|in(?=\.)))(?!\w|'|\.\w|-[A-Za-z]{{1,2}}\b"
        rf"|/(?!(?:{_PER})\b))"
        r"(?:\.(?= [a-z0-9]))?",
        _measure,
    ),
    rule(
        rf"{EDGE}(?<![A-Za-z]-){MINUS}{NUMBER}(?P<unit>{_GLUED})(?!\w|'|/(?!(?:{_PER})\b))",
        _measure,
    ),
    rule(
        rf"{EDGE}{NUMBER} ?x(?= ?\d| [a-z]{{2}}|[,.;!?/]|$)",
        lambda m: [*signed(m), "times"],
        needs="x",
    ),
    rule(
        rf"{EDGE}{NUMBER}/(?P<unit>(?!100\b|s\b|h\b|d\b|l\b|L\b)(?:{_PER}))(?!\w)",
        lambda m: [*signed(m), "per", *_per_name(m["unit"])],
        needs="/",
    ),
    rule(rf"(?<=\x00)/(?P<unit>{_PER})(?!\w)", _per, needs="/"),
)
