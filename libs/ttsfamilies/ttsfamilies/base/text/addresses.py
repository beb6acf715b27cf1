"""Postal addresses: house numbers, directions, ways, states and their codes."""

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.names import RAW
from ttsfamilies.base.text.rules import PAUSE_MARK, Rule, alternatives, rule, table

WAYS = table(
    """
    St: street, Ave: avenue, Av: avenue, Blvd: boulevard, Rd: road, Dr: drive, Ln: lane, Ct: court,
    Pl: place, Hwy: highway, Expy: expressway, Expwy: expressway, Pkwy: parkway, Sq: square,
    Ter: terrace, Cir: circle, Trl: trail, Tpke: turnpike, Fwy: freeway, Way: way, Plz: plaza
    """
)
"""Short names of ways, with a capital."""
STATES = table(
    """
    AL: alabama, AK: alaska, AZ: arizona, AR: arkansas, CA: california, CO: colorado, CT:
    connecticut, DE: delaware, FL: florida, GA: georgia, HI: hawaii, ID: idaho, IL: illinois,
    IN: indiana, IA: iowa, KS: kansas, KY: kentucky, LA: louisiana, ME: maine, MD: maryland,
    MA: massachusetts, MI: michigan, MN: minnesota, MS: mississippi, MO: missouri, MT:
    montana, NE: nebraska, NV: nevada, NH: new hampshire, NJ: new jersey, NM: new mexico, NY:
    new york, NC: north carolina, ND: north dakota, OH: ohio, OK: oklahoma, OR: oregon, PA:
    pennsylvania, RI: rhode island, SC: south carolina, SD: south dakota, TN: tennessee, TX:
    texas, UT: utah, VT: vermont, VA: virginia, WA: washington, WV: west virginia, WI:
    wisconsin, WY: wyoming, DC: d c
    """
)
"""States by the codes of the post office."""
_SIDES = {"N": "north", "S": "south", "E": "east", "W": "west"} | {
    "NE": "northeast",
    "NW": "northwest",
    "SE": "southeast",
    "SW": "southwest",
}
_SIDE = r"(?:(?P<side>[NSEW]|NE|NW|SE|SW)\.? )?"
_WAY = "|".join(sorted((*WAYS, *map(str.lower, WAYS)), key=len, reverse=True))
_ORDINAL = r"\d{1,3}(?:st|nd|rd|th)"
_NAMED = rf"(?:[A-Z][a-z']+|{_ORDINAL})(?: (?:[A-Z][a-z']+|{_ORDINAL})){{0,3}}"
_STATE = alternatives(list(STATES))


def _street(match: re.Match[str]) -> list[str]:
    """ "1211 E Arques Ave": the number in pairs, the rest in full."""
    side = [_SIDES[match["side"]]] if match["side"] else []
    name = [_part(part) for part in match["name"].split()]
    way = WAYS[match["way"].capitalize()]
    words = [*numbers.room(match["number"]), *side]
    for part in name:
        words += part
    after = [_SIDES[match["after"]]] if match["after"] else []
    return [*words, *way.split(), *after]


def _part(text: str) -> list[str]:
    digits = re.match(r"\d+", text)
    return numbers.ordinal(digits[0]) if digits else [RAW + text]


def _state(match: re.Match[str]) -> list[str]:
    """A state behind a town, and its code."""
    words = STATES[match["state"]].split()
    words += [*((PAUSE_MARK,) if match["comma"] else ()), *numbers.digits(match["zip"])]
    if match["more"]:
        words += [PAUSE_MARK, *numbers.digits(match["more"])]
    return words


def _box(match: re.Match[str]) -> list[str]:
    return ["p", "o", "box", *numbers.cardinal(match["number"])]


ADDRESSES: tuple[Rule, ...] = (
    rule(r"\bP\.?O\.? [Bb]ox (?P<number>\d{1,6})(?!\w)", _box, needs="P"),
    rule(
        rf"(?<![\w.,/$-])(?P<number>[1-9]\d{{0,4}}) {_SIDE}(?P<name>{_NAMED}) (?P<way>{_WAY})\b"
        r"(?:\.(?! [A-Z]|$)|(?:\.(?= ?,)))?(?: (?P<after>NE|NW|SE|SW)\b)?",
        _street,
        needs="0123456789",
    ),
    rule(
        rf"(?<=[a-z], )(?P<state>{_STATE})(?P<comma>,)? (?P<zip>\d{{5}})(?:-(?P<more>\d{{4}}))?"
        r"(?!\w|,\d)",
        _state,
        needs=",",
    ),
    rule(
        rf"(?<=[a-z] )(?P<state>{_STATE})(?P<comma>,)? (?P<zip>\d{{5}})"
        r"(?:-(?P<more>\d{4}))?(?!\w)",
        _state,
        needs="0123456789",
    ),
)
