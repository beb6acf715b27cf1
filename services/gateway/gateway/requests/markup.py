"""Markup in a text: pauses and phones are understood, the rest is dropped and never read aloud.

Clients put tags into text when they are told to: SSML's and its vendors' relatives
(`<break time="1s"/>`, `<phoneme alphabet="ipa" ph="laɪv">live</phoneme>`, `<emotion value="x"/>`),
Cartesia's phones (`<<l|aɪ|v>>`) and Deepgram's words
(`\\{"word": "live", "pronounce": "laɪv"\\}`).
"""

from __future__ import annotations

import html
import re
from typing import Any, Final

import msgspec

from ttscommon.wire.pieces import Alphabet, Pause, Phones, Piece, Text

_LONGEST: Final = 300
_LONGEST_PAUSE_S: Final = 10.0
_MOST_PHONES: Final = 200

_PHONEME: Final = re.compile(r"<phoneme\s([^<>]*[^<>/])>([^<>]*)</phoneme\s*>")
_TAG: Final = re.compile(r"</?[A-Za-z][^<>]*>|<[!?][^<>]*>")
_PHONES: Final = re.compile(r"<<[^<>]*>>")
_WORD: Final = re.compile(r"\\\{(.*?)\\\}")
_FOUND: Final = re.compile("|".join(p.pattern for p in (_PHONEME, _PHONES, _TAG, _WORD)))
# What the end of a text may be the beginning of.
_OPEN: Final = re.compile(
    r"<phoneme\s[^<>]*[^<>/]>[^<>]*(?:<(?:/[^<>]*)?)?$"
    r"|<(?:<[^<>]*>?|[A-Za-z/!?][^<>]*)?$|\\(?:\{(?:[^\\]|\\(?!\}))*)?$"
)
_PH: Final = re.compile(r"""\bph\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_ALPHABET: Final = re.compile(r"""\balphabet\s*=\s*["']?\s*([a-z-]+)""")
# The phones of English voices are those of CMU's dictionary.
_ALPHABETS: Final[dict[str, Alphabet]] = {"ipa": "ipa", "cmu-arpabet": "model"}
_TIME: Final = re.compile(r"""\btime\s*=\s*["']?\s*([0-9.]+)\s*(ms|s)\b""")
_STRENGTHS: Final = {"x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.7, "x-strong": 1.0}
_STRENGTH: Final = re.compile(r"""\bstrength\s*=\s*["']?([a-z-]+)""")


class MarkupReader:
    """Text piece by piece -> pieces; the result does not depend on where it was cut.

    What may still become a tag is held back, for `_LONGEST` characters at most: a tag has an end.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str, *, final: bool = False) -> list[Piece]:
        text, position = self._held + text, 0
        pieces: list[Piece] = []
        end = len(text) if final else _open(text, 0)
        for found in _FOUND.finditer(text):
            if found.start() >= end:
                break
            pieces += _plain(text[position : found.start()])
            pieces += _understood(found[0])
            position = found.end()
            if position > end:  # what looked like the beginning of a tag was inside of one
                end = _open(text, position)
        self._held = text[end:]
        return [*pieces, *_plain(text[position:end])]


def _open(text: str, start: int) -> int:
    """Where the end of the text may begin a tag, not before `start`; its length if nowhere."""
    found = _OPEN.search(text, start)
    held = len(text) - found.start() if found else 0
    return len(text) - held if held <= _LONGEST else len(text)


def _plain(text: str) -> list[Piece]:
    return [Text(text)] if text else []


def _understood(markup: str) -> list[Piece]:
    """What a tag means here: a pause, the word it is about, or nothing."""
    if markup.startswith("<break"):
        seconds = min(_break_s(markup), _LONGEST_PAUSE_S)
        return [Pause(seconds)] if seconds > 0 else []
    if found := _PHONEME.fullmatch(markup):
        return _phoneme(found[1], html.unescape(found[2]))
    if markup.startswith("<<"):
        return _spoken("", markup[2:-2].replace("|", ""))
    if markup.startswith("\\{"):
        return _spoken(*_spelled(markup[2:-2]))
    return []


def _phoneme(attributes: str, word: str) -> list[Piece]:
    """SSML's: without an alphabet it is IPA."""
    ph, named = _PH.search(attributes), _ALPHABET.search(attributes)
    alphabet = _ALPHABETS.get(named[1]) if named else "ipa"
    if ph is None or alphabet is None:
        return _plain(word)
    return _spoken(word, html.unescape(ph[1] or ph[2] or ""), alphabet)


def _spoken(word: str, phones: str, alphabet: Alphabet = "ipa") -> list[Piece]:
    """A word with phones; a model that cannot say them reads the word."""
    if not phones.strip() or len(phones) > _MOST_PHONES:
        return _plain(word)
    return [Phones(word.strip(), phones, alphabet, optional=True)]


def _break_s(tag: str) -> float:
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
    except (msgspec.DecodeError, UnicodeEncodeError):
        return "", ""
