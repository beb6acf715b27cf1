"""Addresses on the net and other names that are no words: URLs, e-mail, handles, tags, links."""

import re

from talker.text.rules import Rule, rule

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
}
_PIECE = re.compile(r"[A-Za-z]+|\d+|[^A-Za-z\d]")
_TOP_LEVEL = "com|org|net|edu|gov|io|ai|dev|app|co|uk|de|fr|eu|us|info|me|tv|ly|ch|ca|jp|au|gg"
# Marks a spoken word that is yet to be read as a written one.
RAW = "\x01"
_LONGEST_PATH = 60


def _name(text: str) -> list[str]:
    """Runs of letters and digits stay raw, for the word rules; punctuation is named."""
    words: list[str] = []
    for piece in _PIECE.findall(text):
        if piece.isalnum():
            words.append(RAW + piece)
        elif piece in _SYMBOLS:
            words.append(_SYMBOLS[piece])
    return words


def _email(match: re.Match[str]) -> list[str]:
    return [*_name(match["user"]), "at", *_name(match["host"])]


def _url(match: re.Match[str]) -> list[str]:
    path = (match["path"] or "").split("?")[0].split("#")[0].rstrip("/")
    return _name(match["host"]) + (_name(path) if len(path) <= _LONGEST_PATH else [])


def _handle(match: re.Match[str]) -> list[str]:
    return ["at", *_name(match["name"])]


def _tag(match: re.Match[str]) -> list[str]:
    return ["hashtag", *_name(match["name"])]


def _number_sign(match: re.Match[str]) -> list[str]:
    return ["number", RAW + match["digits"]]


def _silent(_: re.Match[str]) -> list[str]:
    return []


NAMES: tuple[Rule, ...] = (
    rule(r"\]\([^()\s]{1,500}\)", _silent),
    rule(r"</?[A-Za-z][^<>]{0,100}>", _silent),
    rule(
        r"(?<![\w.+-])(?P<user>[\w.+-]{1,64})@(?P<host>[\w-]{1,63}(?:\.[\w-]{1,63}){1,6})", _email
    ),
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
    rule(r"(?<![\w@])@(?P<name>[A-Za-z_]\w{0,50})", _handle),
    rule(r"(?<![\w#&])#(?P<name>[A-Za-z_]\w{0,80})", _tag),
    rule(r"(?<![\w#&])#(?P<digits>\d{1,6})(?!\w)", _number_sign),
)
