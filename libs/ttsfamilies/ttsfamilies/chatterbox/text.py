"""A text as T3 was trained on it: even punctuation, and letters of many languages. No torch."""

from __future__ import annotations

import unicodedata
from typing import Final

# Of the multilingual file. Chinese, Hebrew and Japanese are missing: their texts need readers, for
# codes of characters, vowel points and kana, which are models or tables of their own.
LANGUAGES: Final = (
    *("ar", "da", "de", "el", "en", "es", "fi", "fr", "hi", "it", "ko", "ms", "nl", "no", "pl"),
    *("pt", "ru", "sv", "sw", "tr"),
)
_MARKS: Final = (
    *(("...", ", "), ("\u2026", ", "), (":", ","), (" - ", ", "), (";", ", ")),
    *(("\u2014", "-"), ("\u2013", "-"), (" ,", ",")),
    *(("\u201c", '"'), ("\u201d", '"'), ("\u2018", "'"), ("\u2019", "'")),
)
# A GPT-2 was trained with these as they are written.
_KEPT: Final = ("...", " - ", ";")
_ENDS: Final = (".", "!", "?", "-", ",")
_FULL_STOPS: Final = (".", "!", "?", "\u2026", "\u3002", "\uff1f", "\uff01")
_WIDE_ENDS: Final = ("\u3001", "\uff0c", "\u3002", "\uff1f", "\uff01")


def evened(text: str, *, gpt: bool, multilingual: bool = False) -> str:
    """A sentence with plain punctuation, a capital first letter and an end, as the package has it.

    gpt: as Turbo's package has it. multilingual: marks of East Asian texts end a sentence too.
    """
    if text[:1].islower():
        text = text[0].upper() + text[1:]
    text = " ".join(text.split())
    for mark, plain in _MARKS:
        if not (gpt and mark in _KEPT):
            text = text.replace(mark, plain)
    text = text.rstrip(" ")
    ends = _ENDS + (_WIDE_ENDS if multilingual else ())
    return text if text.endswith(ends) else f"{text}."


def in_letters(text: str, language: str) -> str:
    """A text in the letters that the multilingual tokenizer knows: small ones, marks apart."""
    found = unicodedata.normalize("NFKD", text.lower())
    return found.strip() if language == "ko" else found


def ends_sentence(text: str) -> bool:
    """Whether a sentence is over, quotes and brackets around its end aside."""
    return text.rstrip("\"')]\u201d\u2019\u300d ").endswith(_FULL_STOPS)
