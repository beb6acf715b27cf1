"""Text as it may enter a model, and where in the client's text each of its words stands."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from ttscommon.wire.errors import NothingToSay, TextTooLong
from ttscommon.wire.pieces import Text

# Lines, paragraphs and a table's cells are read as such: they keep their ends. A carriage return
# stands beside a line's end, and counts for none.
_SPACES: Final = {
    **dict.fromkeys("\v\r", " "),
    **{kept: kept for kept in "\t\n"},
    **dict.fromkeys("\f\x85\u2028", "\n"),
    "\u2029": "\n\n",
}
_ONE_LINE: Final = str.maketrans("\t\n", "  ")
_DROPPED: Final = frozenset({"Cc", "Cs", "Co", "Cn"})
_INVISIBLE: Final = frozenset("\ufeff\u200b\u2060\u00ad\u200e\u200f\u202a\u202b\u202c\u202d\u202e")
_SPOKEN_KINDS: Final = frozenset({"Sc", "Sm"})
_SPOKEN_MARKS: Final = frozenset("%&@#")

# By the first word of their characters' names. Greek and Cyrillic are spoken.
_SCRIPTS: Final = {
    "CJK": "Han",
    "HIRAGANA": "Hiragana",
    "KATAKANA": "Katakana",
    "HANGUL": "Hangul",
    **{
        name.upper(): name
        for name in (
            *("Arabic", "Hebrew", "Devanagari", "Thai", "Bengali", "Tamil", "Telugu", "Gujarati"),
            *("Gurmukhi", "Kannada", "Malayalam", "Sinhala", "Lao", "Khmer", "Tibetan", "Myanmar"),
            *("Georgian", "Armenian", "Ethiopic"),
        )
    },
}

_CLOSED: Final = frozenset(" \t\n\r.,;:!?\"')]}-0123456789")
_HANGUL_JOINING: Final = frozenset(map(chr, (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))))
_COMPOSING: Final = _HANGUL_JOINING | {
    chr(int(parts[1], 16))
    for parts in (unicodedata.decomposition(chr(code)).split() for code in range(0xC0, 0x12000))
    if len(parts) == 2 and not parts[0].startswith("<")
}


def clean(text: str, max_chars: int) -> str:
    """The whole of a text, on one line; raises TextTooLong or NothingToSay."""
    if len(text) > max_chars:
        raise too_long(len(text), max_chars)
    cleaned = normalized(text).translate(_ONE_LINE).strip()
    if not speakable(cleaned):
        raise NothingToSay("there is nothing to say in the text", param="input")
    return cleaned


def speakable(text: str) -> bool:
    """Whether anything in `text` could have a sound; emoji and punctuation have none."""
    return any(_has_sound(char) for char in text)


def only_pictures(text: str) -> bool:
    """Whether emoji and the like are all that is in it."""
    return any(unicodedata.category(char) == "So" for char in text) and not speakable(text)


def unread_scripts(text: str) -> list[str]:
    """Writing in `text` that an English voice leaves out, by name, in order of appearance."""
    if text.isascii():
        return []
    characters = dict.fromkeys(text)
    found = (_SCRIPTS.get(unicodedata.name(one, "").partition(" ")[0]) for one in characters)
    return [*dict.fromkeys(filter(None, found))]


def too_long(chars: int, max_chars: int) -> TextTooLong:
    return TextTooLong(
        f"the text has {chars} characters or more, at most {max_chars} are allowed", param="input"
    )


def _certain(text: str) -> int:
    """How many characters of `text` no following one can change."""
    cut = len(text) - 1
    while cut > 0 and _joins(text[cut]):
        cut -= 1
    if cut == len(text) - 1 and text[cut:] in _CLOSED:
        return len(text)
    return max(0, cut)


def _joins(char: str) -> bool:
    """Whether `char` may change with what stands before it, or lets the next one do so."""
    low_surrogate = "\udc00" <= char <= "\udfff"
    if low_surrogate or char in _COMPOSING or unicodedata.combining(char):
        return True
    return not _keep(char)


def normalized(text: str) -> str:
    """NFC, with plain spaces and line ends, and without what has neither sound nor shape."""
    if text.isascii() and text.isprintable():
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return unicodedata.normalize("NFC", "".join(map(_keep, joined)))


def _keep(char: str) -> str:
    if char in _SPACES:
        return _SPACES[char]
    if char in _INVISIBLE or unicodedata.category(char) in _DROPPED:
        return ""
    return char


def _has_sound(char: str) -> bool:
    kind = unicodedata.category(char)
    return kind[0] in "LN" or kind in _SPOKEN_KINDS or char in _SPOKEN_MARKS


_RUN: Final = re.compile(r"[^\t\n\v\f\r \x85\u2028\u2029]+|.", re.DOTALL)


class _Begin(NamedTuple):
    """A position, and what holds from there on; see ttscommon's Span."""

    at: int
    source: int
    rate: float

    def source_at(self, position: int) -> int:
        return self.source + position - self.at if self.source >= 0 else -1


class SourcedCleaner:
    """`clean` for texts with sources that come in pieces; the result does not depend on where they
    were cut. Cleaning moves characters; words keep their place.

    A last character that the next piece could still combine with is held back until then.
    """

    def __init__(self) -> None:
        self._held = ""
        self._begins: list[_Begin] = []

    def feed(self, text: Text | None = None, *, final: bool = False) -> list[Text]:
        """Take a text; returns the cleaned text that is certain now."""
        raw = self._held
        if text is not None:
            self._begins.append(_Begin(len(raw), text.source, text.rate))
            raw += text.text
        cut = len(raw) if final else _certain(raw)
        self._held = raw[cut:]
        cleaned = normalized(raw[:cut])
        found = list(self._placed(raw[:cut], cleaned)) if cleaned else []
        self._forget(cut)
        return found

    def _forget(self, cut: int) -> None:
        """What was cut off needs no place any more."""
        index = max(0, bisect_right(self._begins, cut, key=lambda begin: begin.at) - 1)
        rest = [
            _Begin(max(0, b.at - cut), b.source_at(max(b.at, cut)), b.rate)
            for b in self._begins[index:]
        ]
        self._begins = rest if self._held else []

    def _placed(self, raw: str, cleaned: str) -> Iterator[Text]:
        """`cleaned`, cut where its characters' places jump."""
        begins = self._begins
        if len(cleaned) != len(raw):
            begins = list(_shifted(raw, begins))
        stops = [*(begin.at for begin in begins[1:]), len(cleaned)]
        for begin, stop in zip(begins, stops, strict=True):
            stop = min(stop, len(cleaned))
            if begin.at < stop:
                yield Text(cleaned[begin.at : stop], begin.source, begin.rate)


def _shifted(raw: str, begins: list[_Begin]) -> Iterator[_Begin]:
    """The places of a raw text in its cleaned one, run by run."""
    at, shift, index = 0, 0, 0
    for found in _RUN.finditer(raw):
        start, end = found.span()
        length = len(normalized(found[0]))
        if index and at - start != shift:
            held = begins[index - 1]
            yield _Begin(at, held.source_at(start), held.rate)
            shift = at - start
        while index < len(begins) and begins[index].at < end:
            begin = begins[index]
            moved = at + min(length, len(normalized(raw[start : begin.at])))
            yield _Begin(moved, begin.source, begin.rate)
            index, shift = index + 1, moved - begin.at
        at += length
