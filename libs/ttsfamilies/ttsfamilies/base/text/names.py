"""Names that are no words, and addresses: on the net, and where the post goes."""

from __future__ import annotations

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.rules import PAUSE_MARK, Rule, alternatives, rule, table

_SYMBOLS = {
    ".": "dot",
    "/": "slash",
    "-": "dash",
    "_": "underscore",
    "@": "at",
    "#": "hash",
    "~": "tilde",
    "+": "plus",
    ":": "colon",
    "&": "ampersand",
    "\\": "backslash",
}
_SIGNS = {"$": "dollar", "#": "hash"}
_PIECE = re.compile(r"[A-Za-z]+|\d+|[^A-Za-z\d]")
_TOP_LEVEL = "com|org|net|edu|gov|io|ai|dev|app|co|uk|de|fr|eu|us|info|me|tv|ly|ch|ca|jp|au|gg"
_FILES = (
    "pdf|txt|jpe?g|png|gif|svg|mp[34]|wav|docx?|xlsx?|pptx?|csv|json|ya?ml|html?|css|py|js|ts|md|zip"
    "|tar|gz|exe|log|xml|cpp|java|sh|toml|ini|mov|avi|tex|sql|ipynb"
)
# What people put between brackets for sounds and manners of speaking.
_DIRECTIONS = (
    "laughs?|laughing|laughter|chuckles?|giggles?|sighs?|sighing|gasps?|coughs?|clears throat"
    "|sniffs?|sniffles|groans?|cries|crying|sobs?|yawns?|whispers?|whispering|shouts?|shouting"
    "|screams?|sings?|singing|hums?|pause|long pause|short pause|silence|music|applause|breathes?"
    "|inhales?|exhales?|breath|excited|sad|angry|happy|cheerful|sarcastic|curious|mischievously"
    "|excitedly|softly|loudly|inaudible|crosstalk|beat|laughs? harder|starts laughing|wheezing"
)
# Marks a spoken word that is yet to be read as a written one.
RAW = "\x01"
_LONGEST_PATH = 60
_YEAR = re.compile(r"(?:19|20)\d\d")


def _name(text: str) -> list[str]:
    """Runs of letters and digits stay raw, for the word rules; punctuation is named."""
    words: list[str] = []
    for piece in _PIECE.findall(text):
        if piece.isalnum():
            words.append(RAW + piece)
        elif piece in _SYMBOLS:
            words.append(_SYMBOLS[piece])
    return words


def pieces(text: str) -> list[str]:
    """Letters and digits of a text, for the word rules; everything else is silent."""
    return [RAW + piece for piece in _PIECE.findall(text) if piece.isalnum()]


def _spelled(text: str) -> list[str]:
    """As `_name`, but digits are read one by one, years aside."""
    words: list[str] = []
    for word in _name(text):
        digits = word[1:] if word.startswith(RAW) and word[1:].isdigit() else ""
        spell = digits and not _YEAR.fullmatch(digits)
        words += numbers.digits(digits) if spell else [word]
    return words


def _email(match: re.Match[str]) -> list[str]:
    path = match["path"] or ""
    return [*_spelled(match["user"]), "at", *_spelled(match["host"]), *_spelled(path)]


def _file(match: re.Match[str]) -> list[str]:
    return _spelled(match[0])


def _url(match: re.Match[str]) -> list[str]:
    path = (match["path"] or "").split("?")[0].split("#")[0].rstrip("/")
    return _spelled(match["host"]) + (_spelled(path) if len(path) <= _LONGEST_PATH else [])


def _ticked(match: re.Match[str]) -> list[str]:
    """An item of a list of things to do."""
    return [*(["to", "do"] if match["tick"] == " " else ["done"]), PAUSE_MARK]


def _ordered(match: re.Match[str]) -> list[str]:
    """ "#A1-4432", the number of an order or the like: letters and digits one by one."""
    words = ["number"]
    for char in match["code"]:
        words += numbers.digits(char) or ([RAW + char] if char.isalpha() else [])
    return words


def _coded(match: re.Match[str]) -> list[str]:
    """ "ab$c" and "test$": a sign within or behind letters is a part of the name."""
    return [
        word
        for piece in _PIECE.findall(match[0])
        for word in ([RAW + piece] if piece.isalnum() else [_SIGNS[piece]])
    ]


def _silent(_: re.Match[str]) -> list[str]:
    return []


NAMES: tuple[Rule, ...] = (
    rule(r"\]\([^()\s]{1,500}\)", _silent),
    rule(r"</?[A-Za-z][^<>]{0,100}>", _silent),
    rule(r"^(?:[-*+] |\d{1,3}[.)] )?\[(?P<tick>[xX ])\](?= )", _ticked, literal="]"),
    rule(rf"\[(?:{_DIRECTIONS})\]", lambda _: [PAUSE_MARK], re.IGNORECASE, needs="["),
    rule(
        r"(?<![\w.+-])(?P<user>[\w.+&-]{1,64})@(?P<host>[\w-]{1,63}(?:\.[\w-]{1,63}){1,6})"
        r"(?P<path>/[\w./%~-]{0,100}\w)?",
        _email,
        needs="@",
    ),
    rule(r"(?<!\w)file://[\w./%~-]{1,200}\w", _file, re.IGNORECASE, needs=":"),
    rule(
        r"(?<![\w@.])(?:https?://(?:www\.)?|www\.)(?P<host>[\w.-]{1,200}\w)(?::\d{1,5})?"
        r"(?P<path>[/?#][\w./?%&=#~+:@,;!$'*-]{0,1000}[\w/=])?",
        _url,
        re.IGNORECASE,
    ),
    rule(
        rf"(?<![\w@.])(?P<host>(?:[A-Za-z0-9-]{{1,63}}\.){{1,5}}(?:{_TOP_LEVEL}))"
        r"(?P<path>/[\w./%~+-]{0,200}[\w/])?(?![\w.]\w|\w)",
        _url,
    ),
    rule(
        r"(?<![\w.])localhost:(?P<port>\d{1,5})(?!\w)",
        lambda m: ["local", "host", "colon", *numbers.label(m["port"])],
        needs=":",
    ),
    rule(
        rf"(?<![\w.@/\\])(?:[A-Za-z]:\\|~/|\.{{1,2}}/|/(?=[\w.-]{{1,60}}/))?(?:[\w-][\w.-]{{0,60}}/){{0,8}}"
        rf"[\w-]{{1,60}}(?:\.[\w-]{{1,40}}){{0,2}}\.(?:{_FILES})(?!\w|\.\w)",
        _file,
        re.IGNORECASE,
        needs=".",
    ),
    rule(r"(?<![\w.@/])~?(?:/[\w.-]{1,60}){2,8}/?(?!\w)", _file, needs="/"),
    rule(r"(?<!\w)[A-Za-z]:(?:\\[\w. -]{1,60}?){1,8}(?![\w\\.])", _file, needs="\\"),
    rule(r"(?<![\w@])@(?P<name>[A-Za-z_]\w{0,50})", lambda m: ["at", *_name(m["name"])]),
    rule(
        r"(?<![\w#&])#(?=[A-Z0-9-]{0,20}(?:[A-Z0-9]-[A-Z0-9]|[A-Z]-?\d{3}))(?=[A-Z-]{0,20}\d)"
        r"(?P<code>[A-Z0-9]{1,12}(?:-[A-Z0-9]{1,12}){0,4})(?![\w-])",
        _ordered,
        needs="#",
    ),
    rule(r"(?<![\w#&])#(?P<name>[A-Za-z_]\w{0,80})", lambda m: ["hashtag", *_name(m["name"])]),
    rule(
        r"(?<![\w$#])(?=[a-z]{1,30}[$#])(?!(?:[acfj]|usd|aud|cad)[$#])[a-z]{1,30}"
        r"(?:[$#]{1,3}[a-z]{1,30}){0,3}[$#]{0,2}(?![\w$#])",
        _coded,
    ),
    rule(r"(?<![\w#&])#(?P<digits>\d{1,6})(?!\w)", lambda m: ["number", RAW + m["digits"]]),
)


# Postal addresses: house numbers, directions, ways, states and their codes.


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


ADDRESSES: tuple[Rule, ...] = (
    rule(
        r"\bP\.?O\.? [Bb]ox (?P<number>\d{1,6})(?!\w)",
        lambda m: ["p", "o", "box", *numbers.cardinal(m["number"])],
        needs="P",
    ),
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
