"""Sums of money."""

import re

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.quantities import (
    EDGE,
    NUMBER,
    SCALE,
    SCALE_NAMES,
    SCALES,
    SPACED,
    WHOLE,
    scaled,
    signed,
)
from ttsfamilies.base.text.rules import Rule, alternatives, before, rule

_DOLLAR = ("dollar", "dollars", "cent", "cents")


def _dollars(country: str) -> tuple[str, str, str, str]:
    return (f"{country} dollar", f"{country} dollars", "cent", "cents")


# One, many, and the same of the hundredth part.
_CURRENCIES = {
    "$": _DOLLAR,
    "US$": _dollars("u s"),
    "C$": _dollars("canadian"),
    "CA$": _dollars("canadian"),
    "A$": _dollars("australian"),
    "AU$": _dollars("australian"),
    "NZ$": _dollars("new zealand"),
    "HK$": _dollars("hong kong"),
    "S$": _dollars("singapore"),
    "R$": ("brazilian real", "brazilian reals", "centavo", "centavos"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "jeon", "jeon"),
    "₿": ("bitcoin", "bitcoin", "", ""),
    "₽": ("ruble", "rubles", "kopek", "kopeks"),
    "₺": ("lira", "lira", "kurush", "kurush"),
    "₪": ("shekel", "shekels", "agora", "agorot"),
    "₫": ("dong", "dong", "", ""),
    "₱": ("peso", "pesos", "centavo", "centavos"),
    "฿": ("baht", "baht", "satang", "satang"),
    "₦": ("naira", "naira", "kobo", "kobo"),
    "KR": ("krone", "kroner", "ora", "ora"),
    "ZL": ("zloty", "zlotys", "grosz", "groszy"),
    "KC": ("koruna", "korunas", "haler", "halers"),
    "₴": ("hryvnia", "hryvnias", "kopiyka", "kopiykas"),
    "RS.": ("rupee", "rupees", "paisa", "paise"),
    "RS": ("rupee", "rupees", "paisa", "paise"),
    "USD": _dollars("u s"),
    "CAD": _dollars("canadian"),
    "AUD": _dollars("australian"),
    "NZD": _dollars("new zealand"),
    "EUR": ("euro", "euros", "cent", "cents"),
    "GBP": ("british pound", "british pounds", "penny", "pence"),
    "JPY": ("japanese yen", "japanese yen", "sen", "sen"),
    "CHF": ("swiss franc", "swiss francs", "centime", "centimes"),
    "INR": ("indian rupee", "indian rupees", "paisa", "paise"),
    "CNY": ("chinese yuan", "chinese yuan", "fen", "fen"),
    "BRL": ("brazilian real", "brazilian reals", "centavo", "centavos"),
    "SEK": ("swedish krona", "swedish kronor", "ora", "ora"),
    "NOK": ("norwegian krone", "norwegian kroner", "ora", "ora"),
    "DKK": ("danish krone", "danish kroner", "ora", "ora"),
    "PLN": ("polish zloty", "polish zlotys", "grosz", "groszy"),
    "CZK": ("czech koruna", "czech korunas", "haler", "halers"),
    "HUF": ("hungarian forint", "hungarian forints", "", ""),
    "MXN": ("mexican peso", "mexican pesos", "centavo", "centavos"),
    "ZAR": ("south african rand", "south african rand", "cent", "cents"),
    "SGD": _dollars("singapore"),
    "HKD": _dollars("hong kong"),
    "KRW": ("korean won", "korean won", "jeon", "jeon"),
    "BTC": ("bitcoin", "bitcoin", "", ""),
}
_CODES = alternatives([name for name in _CURRENCIES if name.isalpha() and len(name) == 3])
_SIGN_NAMES = [name for name in _CURRENCIES if not name.isalpha() and name != "RS."]
_SIGNS = alternatives(_SIGN_NAMES)
_BARE = "".join(name for name in _SIGN_NAMES if len(name) == 1)
_BEFORE = rf"(?:{_SIGNS}|(?<!\w)Rs\.?(?= ?\d))"
_AMOUNT = rf"{WHOLE}(?:\.\d++)?"
_MINUS = r"(?P<minus>(?<![\w)\x00%])-)?"
_ARTICLE = re.compile(r"\ban? $", re.IGNORECASE)
_THING = re.compile(r" (?!or|and|to|in|for|on|at|per|a|an|is|was|more|less|each|of|with)[a-z]+")


def _amount(number: str, currency: str, *, adjective: bool = False) -> list[str]:
    """A sum such as "20.5", whose zeros beyond the hundredth part count for nothing."""
    one, many, cent, cents = _CURRENCIES[currency.upper()]
    whole, _, part = number.partition(".")
    part = part.ljust(2, "0") if len(part) < 2 else part[:2] + part[2:].rstrip("0")
    name = one if adjective or whole == "1" else many
    small = [*numbers.cardinal(part), cent if part == "01" else cents]
    if len(part) > 2 or (part != "00" and not cent):
        return [*numbers.decimal(number), *many.split()]
    if not whole.strip("0,"):
        return small if part != "00" else ["zero", *many.split()]
    words = [*numbers.cardinal(whole), *name.split()]
    return words if part == "00" else [*words, "and", *small]


def _many(currency: str) -> list[str]:
    return _CURRENCIES[currency.upper()][1].split()


def _money(match: re.Match[str]) -> list[str]:
    groups = match.groupdict()
    currency = match["currency"]
    words, scale = scaled(match)
    described = _ARTICLE.search(before(match)) is not None
    described = described and _THING.match(match.string, match.end()) is not None
    if scale is not None:
        return [*words, scale, *_CURRENCIES[currency.upper()][not described].split()]
    sign = ["minus"] if groups.get("minus") or groups.get("inner") else []
    return [*sign, *_amount(match["number"], currency, adjective=described)]


def _money_range(match: re.Match[str]) -> list[str]:
    """A range; the currency is said as often as it is written."""
    scale = SCALES.get(match["scale"] or match["mark"] or "")
    currency, low, high = match["currency"], match["low"], match["high"]
    if scale is not None:
        return [*numbers.decimal(low), "to", *numbers.decimal(high), scale, *_many(currency)]
    first = _amount(low, currency) if match["again"] else numbers.decimal(low)
    return [*first, "to", *_amount(high, currency)]


def _comma(match: re.Match[str]) -> list[str]:
    """ "1.234,56" and "1 234,56", as on the continent."""
    number = re.sub("[. ]", "", match["number"]).replace(",", ".")
    groups = match.groupdict()
    scale = SCALES.get(groups.get("scale") or groups.get("mark") or "")
    if scale is not None:
        return [*numbers.decimal(number), scale, *_many(match["currency"])]
    return _amount(number, match["currency"])


def _coded(match: re.Match[str]) -> list[str]:
    words, scale = scaled(match)
    currency = match["currency"]
    return [*words, scale, *_many(currency)] if scale else _amount(match["number"], currency)


def _sign(match: re.Match[str]) -> list[str]:
    """A sign by itself, between words."""
    return [_CURRENCIES[match[0]][0]]


# Currencies of countries where a point stands between thousands, before and behind a sum.
_POINTED_BEFORE = r"R\$|€|₺|(?<!\w)[Kk]r\.?|\b(?:EUR|BRL|SEK|NOK|DKK|PLN|CZK|HUF)"
_NAMED_BEHIND = r"(?:kr|zl|Kc)\b(?!\.\w)|(?:" + _CODES + r")\b"
_POINTED = r"(?P<number>\d{1,3}(?:\.\d{3})++(?:,\d\d)?+)(?!\d|[.,]\d)"
_EURO_COMMA = r"(?P<number>\d{1,3}(?:\.\d{3})*,\d{2})(?!\d|[.,]\d)"
MONEY: tuple[Rule, ...] = (
    rule(
        rf"(?P<currency>{_BEFORE}) ?(?P<low>{_AMOUNT}) ?- ?(?P<again>(?P=currency))?"
        rf"(?P<high>{_AMOUNT}){SCALE}",
        _money_range,
        needs="-",
    ),
    rule(rf"(?P<currency>{_POINTED_BEFORE}) ?{_POINTED}{SCALE}", _comma, needs="."),
    rule(rf"{EDGE}{_POINTED} ?(?P<currency>€|{_NAMED_BEHIND})", _comma, needs="."),
    rule(
        rf"{EDGE}(?P<number>{SPACED}(?:,\d\d)?+) ?(?P<currency>[€£$](?!\d)|{_NAMED_BEHIND})",
        _comma,
        needs=" ",
    ),
    rule(rf"(?P<currency>{_SIGNS}|\b(?:{_CODES})) ?{_EURO_COMMA}", _comma, needs=","),
    rule(rf"{EDGE}{_EURO_COMMA} ?(?P<currency>[€£$](?!\d)|{_NAMED_BEHIND})", _comma, needs=","),
    rule(
        rf"{_MINUS}(?P<currency>{_BEFORE}) ?(?P<inner>-)?{NUMBER}{SCALE}",
        _money,
        re.IGNORECASE,
        needs=_BARE + "rR",
    ),
    rule(rf"\b(?P<currency>{_CODES}) ?{NUMBER}(?: (?P<scale>{SCALE_NAMES})\b)?", _coded),
    rule(
        rf"{EDGE}{NUMBER}(?: (?P<scale>{SCALE_NAMES}))?"
        rf" ?(?P<currency>[€£₽₩₺₴₪₫](?!\d)|{_NAMED_BEHIND})",
        _coded,
    ),
    rule(rf"(?<!\w)(?P<currency>[Kk]r)\.? ?{NUMBER}(?!\w)", _coded, needs="r"),
    rule(
        rf"{EDGE}{NUMBER} ?¢",
        lambda m: [*signed(m), "cent" if m["number"] == "1" else "cents"],
        needs="¢",
    ),
)
SIGNS: tuple[Rule, ...] = (
    rule(
        rf"(?<=[%A-Za-z] )[{re.escape(_BARE)}](?= \w|$)"
        rf"|(?<!\S)[{re.escape(_BARE)}](?= (?:and|or|sign)\b)",
        _sign,
        needs=_BARE,
    ),
)
