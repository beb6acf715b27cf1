"""Money, percentages, units, fractions, ranges, telephone numbers, and numbers by themselves."""

import re

from talker.text import numbers
from talker.text.rules import PAUSE_MARK, Rule, alternatives, rule
from talker.text.tables import collection, table

_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "US$": ("u s dollar", "u s dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "USD": ("u s dollar", "u s dollars", "cent", "cents"),
    "EUR": ("euro", "euros", "cent", "cents"),
    "GBP": ("british pound", "british pounds", "penny", "pence"),
    "JPY": ("japanese yen", "japanese yen", "sen", "sen"),
    "CHF": ("swiss franc", "swiss francs", "centime", "centimes"),
}
_SIGNS = alternatives([name for name in _CURRENCIES if not name.isalpha()])
_CODES = alternatives([name for name in _CURRENCIES if name.isalpha()])
_SCALES = {
    **{name: name for name in ("hundred", "thousand", "million", "billion", "trillion")},
    "k": "thousand",
    "K": "thousand",
    "M": "million",
    "m": "million",
    "mn": "million",
    "B": "billion",
    "bn": "billion",
    "b": "billion",
    "T": "trillion",
}
_SCALE_NAMES = alternatives([name for name in _SCALES if len(name) > 2])
_SCALE_MARKS = alternatives([name for name in _SCALES if len(name) <= 2])
_UNITS = table(
    """
    km: kilometer, cm: centimeter, mm: millimeter, m: meter, nm: nanometer, mi: mile, yd: yard,
    ft: foot, in: inch, sq ft: square foot, kg: kilogram, g: gram, mg: milligram, lb: pound,
    lbs: pound, oz: ounce, t: ton, ml: milliliter, mL: milliliter, l: liter, L: liter,
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
_WHOLE = r"(?:\d{1,3}(?:,\d{3})++|\d++)"
_NUMBER = rf"(?P<number>{_WHOLE}(?:\.\d++)?|\.\d++)"
_SCALE = rf"(?: ?(?P<scale>{_SCALE_NAMES})\b| ?(?P<mark>{_SCALE_MARKS})\b)?"
_EDGE = r"(?<![\w.,])"
_MINUS = r"(?P<minus>(?<![\w)\x00])-)?"
_PLAIN_RANGE = r"(?P<low>\d+(?:,\d{3})*(?:\.\d+)?) ?- ?(?P<high>\d+(?:,\d{3})*(?:\.\d+)?)"


def _signed(match: re.Match[str]) -> list[str]:
    sign = ["minus"] if match.groupdict().get("minus") else []
    return sign + numbers.decimal(match["number"])


def _scaled(match: re.Match[str]) -> tuple[list[str], str | None]:
    groups = match.groupdict()
    name = groups.get("scale") or groups.get("mark")
    return _signed(match), (_SCALES.get(name) or _SCALES[name.lower()]) if name else None


def _money(match: re.Match[str]) -> list[str]:
    groups = match.groupdict()
    one, many, cent, cents = _CURRENCIES[match["currency"].upper()]
    words, scale = _scaled(match)
    whole, point, part = match["number"].partition(".")
    if scale is not None:
        return [*words, scale, *many.split()]
    if not point or len(part) != 2:
        name = one if match["number"] == "1" else many
        return [*words, *name.split()]
    sign = ["minus"] if groups.get("minus") else []
    small = [*numbers.cardinal(part), cent if part == "01" else cents]
    if not whole.strip("0,"):
        return sign + (small if part != "00" else ["zero", *many.split()])
    amount = [*sign, *numbers.cardinal(whole), *(one if whole == "1" else many).split()]
    return amount if part == "00" else [*amount, "and", *small]


def _money_range(match: re.Match[str]) -> list[str]:
    scale = match["scale"] or match["mark"]
    words = [*_range(match), *([_SCALES[scale]] if scale else [])]
    return [*words, *_CURRENCIES[match["currency"]][1].split()]


def _cents(match: re.Match[str]) -> list[str]:
    return [*_signed(match), "cent" if match["number"] == "1" else "cents"]


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
    words, scale = _scaled(match)
    if scale is not None:
        words.append(scale)
    return [*words, *unit(match["unit"], one=match["number"] == "1" and scale is None)]


def _per(match: re.Match[str]) -> list[str]:
    """What follows an amount: "$5/hr"."""
    return ["per", *(unit(match["unit"], one=True) if match["unit"] in _UNITS else [match["unit"]])]


def _measure_range(match: re.Match[str]) -> list[str]:
    return [*_range(match), *unit(match["unit"])]


def _percent(match: re.Match[str]) -> list[str]:
    return [*_signed(match), "percent"]


def _percent_range(match: re.Match[str]) -> list[str]:
    return [*_range(match), "percent"]


def _degrees(match: re.Match[str]) -> list[str]:
    scales = {"C": ["celsius"], "F": ["fahrenheit"], "K": ["kelvin"], None: []}
    name = "degree" if match["number"] == "1" else "degrees"
    return [*_signed(match), name, *scales[match["degrees"]]]


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


def _range(match: re.Match[str]) -> list[str]:
    low, high = match["low"], match["high"]
    falls = float(low.replace(",", "")) > float(high.replace(",", ""))
    joint = "minus" if falls and " - " in match[0] else "to"
    return [*numbers.decimal(low), joint, *numbers.decimal(high)]


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
    return [*_signed(match), "times"]


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
    words, scale = _scaled(match)
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
    return _signed(match)


LABELS: tuple[Rule, ...] = (
    rule(r"(?<![\w.])(?P<number>\d{1,3}(?:\.\d{1,3}){3})(?![\w.]\d)", _dotted),
    rule(
        r"(?<![\w.])(?:\+?\d{1,3}[ .-]?)?(?:\(\d{3}\) ?|\d{3}[.-])\d{3}[ .-]\d{4}(?![\w-])"
        r"|(?<![\w.])\+\d{1,3}(?:[ -]\d{2,5}){2,5}(?![\w-])"
        r"|(?<![\w.-])\d{3}-\d{4}(?![\w-])",
        _telephone,
    ),
    rule(
        r"(?i:(?<=\bcode )|(?<=\bcode is )|(?<=\bpin )|(?<=\bpin is )|(?<=\bzip )|(?<=\bext\. )"
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
    rule(
        rf"(?P<currency>{_SIGNS}) ?(?P<low>{_WHOLE}(?:\.\d++)?) ?- ?(?P=currency)?"
        rf"(?P<high>{_WHOLE}(?:\.\d++)?){_SCALE}",
        _money_range,
    ),
    rule(
        rf"{_MINUS}(?P<currency>{_SIGNS}) ?{_NUMBER}"
        rf"{_SCALE}",
        _money,
        re.IGNORECASE,
    ),
    rule(rf"\b(?P<currency>{_CODES}) {_NUMBER}(?: (?P<scale>{_SCALE_NAMES})\b)?", _money),
    rule(
        rf"{_EDGE}{_NUMBER}(?: (?P<scale>{_SCALE_NAMES}))? ?(?P<currency>[€£]|(?:{_CODES})\b)",
        _money,
    ),
    rule(rf"{_EDGE}{_NUMBER} ?¢", _cents),
    rule(rf"{_EDGE}{_PLAIN_RANGE} ?%", _percent_range),
    rule(rf"{_EDGE}{_MINUS}{_NUMBER} ?%", _percent),
    rule(rf"{_EDGE}{_MINUS}{_NUMBER} degrees(?: (?P<degrees>[CFK]))?(?!\w)", _degrees),
    rule(r"(?<![\w.])(?P<feet>[3-8])'(?P<inches>\d\d?)(?:\"|'')?(?!\w)", _feet_inches),
    rule(rf"{_EDGE}{_PLAIN_RANGE} ?(?P<unit>{_SPACED_UNITS})(?![\w/])", _measure_range),
    rule(
        rf"{_EDGE}{_MINUS}{_NUMBER}(?: (?P<scale>{_SCALE_NAMES}))?"
        rf"(?: (?P<unit>{_SPACED_UNITS}|in(?=\.)))(?![\w/']|\.\w)(?:\.(?= [a-z0-9]))?",
        _measure,
    ),
    rule(rf"{_EDGE}{_MINUS}{_NUMBER}(?P<unit>{_GLUED_UNITS})(?![\w/'])", _measure),
    rule(rf"(?<=\x00)/(?P<unit>{_PER})(?!\w)", _per),
)
NUMBERS: tuple[Rule, ...] = (
    rule(rf"{_EDGE}(?P<number>{_WHOLE})(?:st|nd|rd|th|ST|ND|RD|TH)\b", _ordinal),
    rule(rf"{_EDGE}(?P<number>24/7|9/11)(?![\w/])", _pair),
    rule(
        r"(?<![\w.,/])(?:(?P<whole>\d{1,4}) )?(?P<top>\d{1,2})"
        r"/(?P<bottom>[2-9]|1[0-9]|32|64|100)(?![\w/])",
        _fraction,
    ),
    rule(rf"(?<![\w.,/-]){_PLAIN_RANGE}(?![\w/-])", _range),
    rule(r"(?<![\w.])(?P<number>\d{1,4}(?:\.\d{1,4}){2,6})(?!\w)", _dotted),
    rule(r"(?<![\w.,-])(?P<number>[1-9]11)(?!\w|[,.-]\d)", _spelled),
    rule(rf"{_EDGE}(?P<number>[248])K(?!\w)", _picture_width),
    rule(
        rf"{_EDGE}{_MINUS}(?P<number>\d{{1,3}}(?:\.\d+)?)(?P<mark>k|K|M|bn)(?!\w)", _scaled_number
    ),
    rule(rf"{_EDGE}{_NUMBER} ?x(?= ?\d| [a-z]{{2}}|[,.;!?]|$)", _times),
    rule(r"(?<=[A-Za-z])(?P<number>[1-9]\d[1-9]\d)(?![\w.])", _code),
    rule(rf"{_MINUS}{_NUMBER}", _plain),
)
