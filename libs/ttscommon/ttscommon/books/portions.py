"""A book as requests: each of one voice, and followed by so much silence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ttscommon.books.book import Book

# About a minute and a half of sound: what a process that dies costs at most.
MOST_PORTION_CHARS: Final = 1500
_SENTENCE: Final = re.compile(r".+?(?:[.!?…。！？][\"'”’»)\]]*(?:\s+|$)|$)", re.DOTALL)


@dataclass(frozen=True)
class BookPauses:
    """Seconds of silence behind a paragraph and behind a chapter, besides what the voice leaves."""

    paragraph_s: float = 0.5
    chapter_s: float = 2.0

    def __post_init__(self) -> None:
        if not (0 <= self.paragraph_s <= 60 and 0 <= self.chapter_s <= 60):
            raise ValueError("a pause has 0 to 60 seconds")


@dataclass(frozen=True)
class Portion:
    """A request of a book. chapter: from 0. pause_s: silence behind it; 0 behind the last one."""

    chapter: int
    text: str
    speaker: str | None
    pause_s: float


def portions(book: Book, pauses: BookPauses = BookPauses()) -> Iterator[Portion]:
    """A paragraph each, and several of a long one, between which there is no silence."""
    last = len(book.chapters) - 1
    for number, chapter in enumerate(book.chapters):
        for place, passage in enumerate(chapter.passages, 1):
            ends = place == len(chapter.passages)
            pause_s = pauses.chapter_s if ends else pauses.paragraph_s
            if ends and number == last:
                pause_s = 0.0
            *texts, text = cut(passage.text)
            yield from (Portion(number, one, passage.speaker, 0.0) for one in texts)
            yield Portion(number, text, passage.speaker, pause_s)


def cut(text: str) -> list[str]:
    """At ends of sentences, as few parts as there may be; a sentence without end at a space."""
    parts: list[str] = [""]
    for found in _SENTENCE.finditer(text):
        for piece in _short(found[0]):
            if len(parts[-1]) + len(piece) > MOST_PORTION_CHARS and parts[-1]:
                parts.append("")
            parts[-1] += piece
    return [part.strip() for part in parts if part.strip()] or [text]


def _short(sentence: str) -> Iterator[str]:
    start = 0
    while len(sentence) - start > MOST_PORTION_CHARS:
        space = sentence.rfind(" ", start + 1, start + MOST_PORTION_CHARS)
        end = space + 1 if space > 0 else start + MOST_PORTION_CHARS
        yield sentence[start:end]
        start = end
    yield sentence[start:]
