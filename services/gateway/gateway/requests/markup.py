"""Markup in a text: what can be followed is, the rest is dropped and never read aloud."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gateway.requests.pls import to_ipa
from ttscommon.wire.pieces import KINDS, Alphabet, Boundary, Pause, Phones, Piece, Text

_SLOWEST: Final = 0.25
_FASTEST: Final = 4.0
_DEEPEST: Final = 16
_RATES: Final = {
    "x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.6,
}  # fmt: skip
# A stressed word is a longer one; nothing else of an emphasis can be asked of a model here.
_LEVELS: Final = {"strong": 0.75, "moderate": 0.87, "none": 1.0, "reduced": 1.15}
_NUMBER: Final = re.compile(r"([+-]?)(\d{1,4}(?:\.\d{1,4})?)(%?)")


class Tempo:
    """The elements that are open: their rates multiply."""

    def __init__(self) -> None:
        self._open: list[tuple[str, float]] = []

    @property
    def rate(self) -> float:
        """How many times as fast as the request."""
        rate = 1.0
        for _, one in self._open:
            rate *= one
        return min(max(rate, _SLOWEST), _FASTEST)

    def take(
        self, name: str, tag: str, attributes: Mapping[str, str]
    ) -> tuple[list[str], list[str]]:
        """A tag of `prosody` or `emphasis`; returns what of it is followed, and what is not."""
        if tag.startswith("</"):
            self._close(name)
            return [], []
        if name == "emphasis":
            rate = _LEVELS.get(attributes.get("level", "moderate"))
            followed = ["emphasis"] if rate else []
            unfollowed = [] if rate else ["emphasis"]
        else:
            rate = rate_of(attributes["rate"]) if "rate" in attributes else None
            followed = ["prosody rate"] if rate else []
            unfollowed = [f"prosody {one}" for one in attributes if one != "rate" or not rate]
        if not tag.endswith("/>") and len(self._open) < _DEEPEST:
            self._open.append((name, rate or 1.0))
        return followed, unfollowed

    def _close(self, name: str) -> None:
        """Ends the innermost of its name, and what was left open within."""
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index][0] == name:
                del self._open[index:]
                return


def rate_of(written: str) -> float | None:
    """A `rate`: "slow", "80%" and "0.8" of the usual, "+20%" more; None for none of these."""
    written = written.strip().lower()
    if written in _RATES:
        return _RATES[written]
    found = _NUMBER.fullmatch(written)
    if found is None:
        return None
    number = float(found[2]) / (100 if found[3] else 1)
    rate = {"": number, "+": 1 + number, "-": 1 - number}[found[1]]
    return min(max(rate, _SLOWEST), _FASTEST)


_LONGEST: Final = 300
_LONGEST_PAUSE_S: Final = 10.0
_MOST_PHONES: Final = 200
_MOST_DROPPED: Final = 20

# Elements whose content stands for something else; the content holds no tags.
_ELEMENTS: Final = "phoneme|say-as|sub|sup|spell"
_RAISED: Final = str.maketrans("0123456789+-n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ")
_ELEMENT: Final = re.compile(
    rf"<(?P<element>{_ELEMENTS})(?:\s(?P<attributes>[^<>]*[^<>/]))?>"
    r"(?P<content>[^<>]*)</(?P=element)\s*>"
)
_TAG: Final = re.compile(r"</?[A-Za-z][^<>]*>|<[!?][^<>]*>")
_PHONES: Final = re.compile(r"<<[^<>]*>>")
_WORD: Final = re.compile(rf"\\\{{(.{{0,{_LONGEST}}}?)\\\}}")
_LESSER: Final = re.compile("|".join(p.pattern for p in (_PHONES, _TAG, _WORD)))
_FOUND: Final = re.compile("|".join(p.pattern for p in (_ELEMENT, _LESSER)))
# What the end of a text may be the beginning of.
_OPEN: Final = re.compile(
    rf"<(?:{_ELEMENTS})(?:\s[^<>]*[^<>/])?>[^<>]*(?:<(?:/[^<>]*)?)?$"
    r"|<(?:<[^<>]*>?|[A-Za-z/!?][^<>]*)?$|\\(?:\{(?:[^\\]|\\(?!\}))*)?$"
)
_NAME: Final = re.compile(r"</?([A-Za-z][\w:.-]{0,31})", re.ASCII)
# What may stand in a header.
_PLAIN: Final = re.compile(r"[a-z0-9:-]{1,32}", re.ASCII)
_ATTRIBUTE: Final = re.compile(r"""\b([a-z-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>=/]+))""")
# The phones of English voices are those of CMU's dictionary.
_ALPHABETS: Final[dict[str, Alphabet]] = {"ipa": "ipa", "cmu-arpabet": "model", "x-sampa": "ipa"}
_TIME: Final = re.compile(r"""\btime\s*=\s*["']?\s*([0-9.]+)\s*(ms|s)\b""")
_STRENGTHS: Final = {"x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.7, "x-strong": 1.0}
_STRENGTH: Final = re.compile(r"""\bstrength\s*=\s*["']?([a-z-]+)""")
_SENTENCE_ENDS: Final = frozenset(
    {"p", "s", "li", "tr", "dt", "dd", "div", "title", *(f"h{level}" for level in range(1, 7))}
)
# HTML's, which end what stands before them as a line break and a comma do.
_BREAKS: Final = {"br": "\n", "hr": "\n\n"}
_CELLS: Final = frozenset({"td", "th"})
_PLACES: Final = frozenset({"ul", "ol", "dl", "table", "tbody", "thead"})
# They say nothing that is not done anyway, or are done where they close.
_SILENT: Final = frozenset(
    {"speak", "w", "token", "break", *_ELEMENTS.split("|"), *_SENTENCE_ENDS, *_CELLS, *_PLACES}
)
_PACES: Final = frozenset({"prosody", "emphasis"})
_PHONETIC: Final = frozenset({"phoneme", "say-as"})


class MarkupReader:
    """Text piece by piece -> pieces; the result does not depend on where it was cut.

    What may still become a tag is held back, for `_LONGEST` characters at most: a tag has an end.
    `position`: where the next character that is read stands in the text as the client sent it.
    """

    def __init__(self) -> None:
        self.position = 0
        self._held = ""
        self._tempo = Tempo()
        self._used: dict[str, None] = {}
        self._dropped: dict[str, None] = {}

    def feed(self, text: str, *, final: bool = False) -> list[Piece]:
        text, position = self._held + text, 0
        if "<" not in text and "\\" not in text:
            return self._take_plain(text)
        pieces: list[Piece] = []
        end = len(text) if final else _open(text, 0)
        while (found := _next(text, position)) is not None:
            if found.start() >= end:
                break
            pieces += self._plain(text, position, found.start())
            pieces += self._understood(found)
            position = found.end()
            if position > end:  # what looked like the beginning of a tag was inside of one
                end = _open(text, position)
        self._held = text[end:]
        pieces += self._plain(text, position, end)
        self.position += end
        return pieces

    def _take_plain(self, text: str) -> list[Piece]:
        """Text without a character that markup begins with."""
        self._held = ""
        pieces = self._plain(text, 0, len(text))
        self.position += len(text)
        return pieces

    def dropped(self, *, phones: bool, pace: bool) -> list[str]:
        """Markup so far that a model does not follow, as `markup:NAME`.

        phones: whether it speaks given phones and kinds. pace: whether its pace can change.
        """
        unable = {*(() if phones else _PHONETIC), *(() if pace else _PACES)}
        used = [name for name in self._used if name.partition(" ")[0] in unable]
        return [f"markup:{name}" for name in dict.fromkeys((*self._dropped, *used))]

    def _plain(self, text: str, start: int, end: int) -> list[Piece]:
        if start >= end:
            return []
        return [Text(text[start:end], self.position + start, self._tempo.rate)]

    def _understood(self, found: re.Match[str]) -> list[Piece]:
        """What a tag means here: a pause, the word it is about, or nothing."""
        markup, groups = found[0], found.groupdict()
        if groups.get("element"):
            content = self.position + found.start("content")
            return self._element(found["element"], found["attributes"] or "", found, content)
        if markup.startswith("<<"):
            return self._spoken("", markup[2:-2].replace("|", ""), -1)
        if markup.startswith("\\{"):
            return self._spoken(*_spelled(markup[2:-2]), self.position + found.start())
        return self._tag(markup)

    def _tag(self, tag: str) -> list[Piece]:
        name = found[1].lower() if (found := _NAME.match(tag)) else ""
        closing = tag.startswith("</")
        if name == "break" and not closing:
            seconds = min(_break_s(tag), _LONGEST_PAUSE_S)
            return [Pause(seconds)] if seconds > 0 else []
        if name in _SENTENCE_ENDS and closing:
            return [Boundary()]
        if name in _BREAKS or (name in _CELLS and closing):
            return [Text(_BREAKS.get(name, "\t"), -1, self._tempo.rate)]
        if name in _PACES:
            followed, unfollowed = self._tempo.take(name, tag, _attributes(tag))
            self._note(self._used, *followed)
            self._note(self._dropped, *unfollowed)
        elif name and name not in _SILENT and not closing:
            self._note(self._dropped, name)
        return []

    def _element(
        self, name: str, attributes: str, found: re.Match[str], source: int
    ) -> list[Piece]:
        """A word that stands for something else; where that cannot be done, the word."""
        given, word = _attributes(attributes), html.unescape(found["content"])
        if name == "phoneme":
            self._note(self._used, name)
            return self._phoneme(given, word, source)
        if name == "sub":
            alias = given.get("alias", "").strip()
            return self._read_as(word, source, alias=alias) if alias else self._word(word, source)
        if name == "sup":
            return self._word(_raised(word), source)
        kind = "characters" if name == "spell" else given.get("interpret-as", "").strip().lower()
        if kind not in KINDS:
            self._note(self._dropped, f"say-as {kind}" if _PLAIN.fullmatch(kind) else "say-as")
            return self._word(word, source)
        self._note(self._used, f"say-as {kind}")
        return self._read_as(word, source, kind=kind, form=given.get("format", ""))

    def _phoneme(self, given: dict[str, str], word: str, source: int) -> list[Piece]:
        """SSML's: without an alphabet it is IPA."""
        named = given.get("alphabet", "ipa").strip().lower()
        alphabet, phones = _ALPHABETS.get(named), given.get("ph", "")
        if alphabet is None:
            self._note(self._dropped, "phoneme")
            return self._word(word, source)
        phones = to_ipa(phones) if named == "x-sampa" else phones
        return self._spoken(word, phones, source, alphabet)

    def _read_as(self, word: str, source: int, **how: Any) -> list[Piece]:
        if not (word := word.strip()):
            return []
        placed: dict[str, Any] = {"source": source, "rate": self._tempo.rate}
        return [Phones(word, "", optional=True, **how, **placed)]

    def _spoken(
        self, word: str, phones: str, source: int, alphabet: Alphabet = "ipa"
    ) -> list[Piece]:
        """A word with phones; a model that cannot say them reads the word."""
        if not phones.strip() or len(phones) > _MOST_PHONES:
            return self._word(word, source)
        placed: dict[str, Any] = {"source": source, "rate": self._tempo.rate}
        return [Phones(word.strip(), phones, alphabet, optional=True, **placed)]

    def _word(self, word: str, source: int) -> list[Piece]:
        return [Text(word, source, self._tempo.rate)] if word else []

    @staticmethod
    def _note(names: dict[str, None], *more: str) -> None:
        for name in more:
            if len(names) < _MOST_DROPPED:
                names[name[:64]] = None


def _next(text: str, start: int) -> re.Match[str] | None:
    """The next markup; of an element that is too long to be waited for, its first tag."""
    found = _FOUND.search(text, start)
    if found is None or len(found[0]) <= _LONGEST or not found.groupdict().get("element"):
        return found
    return _LESSER.search(text, found.start())


def _open(text: str, start: int) -> int:
    """Where the end of the text may begin a tag, not before `start`; its length if nowhere."""
    found = _OPEN.search(text, max(start, len(text) - _LONGEST))
    return found.start() if found else len(text)


def _attributes(tag: str) -> dict[str, str]:
    """None of a tag that is too long to be one."""
    if len(tag) > _LONGEST:
        return {}
    return {name: html.unescape(a or b or c) for name, a, b, c in _ATTRIBUTE.findall(tag)}


def _raised(text: str) -> str:
    """A power; what is raised of an ordinal is its ending."""
    return text if text.isalpha() and len(text) > 1 else text.translate(_RAISED)


def _break_s(tag: str) -> float:
    tag = tag[:_LONGEST]
    if found := _TIME.search(tag):
        try:
            return float(found[1]) * (0.001 if found[2] == "ms" else 1.0)
        except ValueError:
            return 0.0
    strength = _STRENGTH.search(tag)
    return _STRENGTHS.get(strength[1], 0.0) if strength else _STRENGTHS["medium"]


def _spelled(content: str) -> tuple[str, str]:
    """The word of a Deepgram pronunciation, and its phones."""
    try:
        said = msgspec.json.decode("{" + html.unescape(content) + "}", type=dict[str, Any])
        return str(said.get("word", "")), str(said.get("pronounce", ""))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return "", ""
