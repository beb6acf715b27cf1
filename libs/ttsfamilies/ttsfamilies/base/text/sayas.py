"""SSML's `say-as`: what a piece of text is to be read as, whatever it looks like.

Kinds and formats are those of the W3C's note "SSML 1.0 say-as attribute values" and of the large
services. What does not fit its kind is read as any text is.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from ttsfamilies.base.text import numbers
from ttsfamilies.base.text.dates import MONTHS, full_year
from ttsfamilies.base.text.rules import PAUSE_MARK
from ttsfamilies.base.text.words import letter

Read: TypeAlias = Callable[[str], list[str]]
"""Reads text as if nothing were said about it."""

_Say: TypeAlias = Callable[[str, str, Read], Sequence[str] | None]

_NAMES: Final = {
    "-": "dash", "_": "underscore", ".": "dot", ",": "comma", "/": "slash", "\\": "backslash",
    "@": "at", "#": "hash", "&": "and", "+": "plus", "=": "equals", "%": "percent", "*": "star",
    "$": "dollar", ":": "colon", ";": "semicolon", "!": "exclamation mark", "?": "question mark",
    "(": "open parenthesis", ")": "close parenthesis", "'": "apostrophe", '"': "quote",
}  # fmt: skip
_NUMBER: Final = re.compile(r"([+-]?)(\d[\d,]*)(?:\.(\d+))?")
_ORDINAL: Final = re.compile(r"(\d[\d,]*)(?:st|nd|rd|th)?", re.IGNORECASE)
_FRACTION: Final = re.compile(r"(?:(\d+)\s*[+ ]\s*)?(\d+)\s*[/⁄]\s*(\d+)")
_TIME: Final = re.compile(
    r"(\d{1,2})(?:[:.h](\d{2}))?(?:[:.](\d{2}))?\s*([ap])?\.?(?:m\.?)?", re.IGNORECASE
)
_SPAN: Final = re.compile(r"(\d+)'(?:\s*(\d+)\")?")
_SUM: Final = re.compile(r"([A-Z]{3})\s*([\d.,]+)|([\d.,]+)\s*([A-Z]{3})")
_SIGNS: Final = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹"}
_LONGEST_SPELLED: Final = 100


def say_as(text: str, kind: str, form: str, read: Read) -> Sequence[str] | None:
    """The words for `text` (PAUSE_MARK for a break) as a `kind` in a `form`; None if it is none."""
    say = _KINDS.get(kind.lower())
    return None if say is None else say(text.strip(), form.strip().lower(), read)


def _characters(text: str, form: str, read: Read) -> list[str] | None:
    words: list[str] = []
    for char in text[:_LONGEST_SPELLED]:
        if char.isdigit() and char.isascii():
            words += numbers.digits(char)
        elif char.isascii() and char.isalpha():
            words.append(letter(char))
        elif char.isspace():
            words.append(PAUSE_MARK)
        else:
            words += _NAMES.get(char, "").split()
    return words or None


def _digits(text: str, form: str, read: Read) -> list[str] | None:
    return numbers.digits(text[:_LONGEST_SPELLED]) or None


def _cardinal(text: str, form: str, read: Read) -> list[str] | None:
    """A number; its `format` may name another kind, as Google has it."""
    if form in ("digits", "ordinal", "telephone"):
        return [*(_KINDS[form](text, "", read) or ())] or None
    found = _NUMBER.fullmatch(text)
    if found is None:
        return _roman(text, numbers.cardinal)
    sign = {"-": ["minus"], "+": ["plus"]}.get(found[1], [])
    fraction = ["point", *numbers.digits(found[3])] if found[3] else []
    return [*sign, *numbers.cardinal(found[2]), *fraction]


def _ordinal(text: str, form: str, read: Read) -> list[str] | None:
    found = _ORDINAL.fullmatch(text)
    return numbers.ordinal(found[1]) if found else _roman(text, numbers.ordinal)


def _roman(text: str, name: Callable[[str], list[str]]) -> list[str] | None:
    return name(str(numbers.roman(text))) if numbers.is_roman(text) else None


def _fraction(text: str, form: str, read: Read) -> list[str] | None:
    found = _FRACTION.fullmatch(text)
    if found is None or max(map(len, found.groups(""))) > 9:
        return None
    words = numbers.fraction(found[2], found[3])
    return [*numbers.cardinal(found[1]), "and", *words] if found[1] else words


def _telephone(text: str, form: str, read: Read) -> list[str] | None:
    """Digits in the groups that are written."""
    words = ["plus"] if text.startswith("+") else []
    for group in re.findall(r"\d+|(?:ext|x)", text.lower())[:_LONGEST_SPELLED]:
        if group.isdigit():
            words += [*numbers.digits(group), PAUSE_MARK]
        else:
            words.append("extension")
    return words if any(word != PAUSE_MARK for word in words) else None


def _date(text: str, form: str, read: Read) -> list[str] | None:
    """The parts in the order of `form`: letters of "ymd", as many as there are parts."""
    letters = re.sub(r"[^ymd]", "", form)
    order = "".join(dict.fromkeys(letters))
    parts = re.findall(r"\d+", text)
    if len(parts) == 1 and letters != order and len(parts[0]) == len(letters):
        parts = [_run(parts[0], letters, which) for which in order]
    if not order or len(parts) != len(order) or re.search(r"[A-Za-z]", text):
        return None
    found = dict(zip(order, parts, strict=True))
    if not (1 <= int(found.get("m", 1)) <= 12 and 1 <= int(found.get("d", 1)) <= 31):
        return None
    return read(_dated(found))


def _run(digits: str, letters: str, which: str) -> str:
    """The digits of "20240503" under the letters `which` of "yyyymmdd"."""
    return "".join(d for d, one in zip(digits, letters, strict=True) if one == which)


def _dated(found: Mapping[str, str]) -> str:
    """A date that reads itself: "March 5, 2024"."""
    year, day = full_year(found.get("y", "")), found.get("d", "")
    if "m" not in found:
        return f"the {numbers.ordinal(day)[-1]}" if day and len(day) < 2 else (day or year)
    month = MONTHS[int(found["m"]) - 1].capitalize()
    if not day:
        return f"{month} {year}".strip()
    return f"{month} {int(day)}, {year}" if year else f"{month} {int(day)}"


def _time(text: str, form: str, read: Read) -> list[str] | None:
    if (span := _SPAN.fullmatch(text)) is not None:
        seconds = f" and {_counted(span[2], 'second')}" if span[2] else ""
        return read(_counted(span[1], "minute") + seconds)
    found = _TIME.fullmatch(text)
    if found is None or int(found[1]) > 24 or int(found[2] or 0) > 59:
        return None
    hour, minute, half = int(found[1]), found[2] or "00", found[4]
    if form.endswith("12") and not half and hour > 12:
        hour, half = hour - 12, "p"
    at = f"{hour}:{minute}" + (f":{found[3]}" if found[3] else "")
    return read(at + (f" {half.lower()}m" if half else ""))


def _counted(count: str, name: str) -> str:
    return f"{count} {name}" + ("" if int(count) == 1 else "s")


def _currency(text: str, form: str, read: Read) -> list[str] | None:
    """A sum with its sign, or with the code of its currency on either side or as `form`."""
    found = _SUM.fullmatch(text)
    code, amount = (found[1] or found[4], found[2] or found[3]) if found else (form.upper(), text)
    sign = _SIGNS.get(code[:3])
    return read(f"{sign}{amount}") if sign and amount[:1].isdigit() else None


def _plain(text: str, form: str, read: Read) -> list[str] | None:
    return read(text)


def _bleep(text: str, form: str, read: Read) -> list[str]:
    """A word that is not to be heard."""
    return ["bleep"]


_KINDS: Final[Mapping[str, _Say]] = {
    **dict.fromkeys(("characters", "spell-out", "verbatim"), _characters),
    "digits": _digits,
    **dict.fromkeys(("cardinal", "number"), _cardinal),
    "ordinal": _ordinal,
    "fraction": _fraction,
    "date": _date,
    **dict.fromkeys(("time", "duration"), _time),
    "telephone": _telephone,
    "currency": _currency,
    **dict.fromkeys(("unit", "address", "name", "net", "measure"), _plain),
    **dict.fromkeys(("expletive", "bleep"), _bleep),
}
