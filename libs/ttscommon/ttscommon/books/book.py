"""A book as it is spoken: chapters of passages, each of one speaker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ttscommon.wire.errors import BadRequest

# Chapters are numbered by three digits in Vorbis comments.
MOST_CHAPTERS: Final = 999
# Three times the Bible.
MOST_CHARACTERS: Final = 15_000_000
MOST_COVER_BYTES: Final = 10 << 20
_LONGEST_NAME: Final = 500

_IMAGES: Final = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}


def one_line(name: str) -> str:
    """A title or a name as lists and tags show it."""
    printable = (c if c.isprintable() else " " for c in name[: 2 * _LONGEST_NAME])
    return " ".join("".join(printable).split())[:_LONGEST_NAME]


class InvalidBook(BadRequest):
    """A book that cannot be read; the message says what is wrong with it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, param="book")


@dataclass(frozen=True)
class BookPassage:
    """A paragraph, or what one speaker says of it. speaker: None is the narrator."""

    text: str
    speaker: str | None = None


@dataclass(frozen=True)
class Chapter:
    """A title for lists of chapters, and all that is said, headings among it; never empty."""

    title: str
    passages: tuple[BookPassage, ...]


@dataclass(frozen=True)
class Cover:
    """An image as it lies in the book. media_type: image/jpeg or image/png."""

    data: bytes
    media_type: str

    @classmethod
    def of(cls, data: bytes) -> Cover | None:
        """None for a format that audio files cannot hold, and for an image that is too large."""
        kinds = (kind for head, kind in _IMAGES.items() if data.startswith(head))
        kind = next(kinds, None)
        return cls(data, kind) if kind and len(data) <= MOST_COVER_BYTES else None


@dataclass(frozen=True)
class Book:
    """`author` and `language` (a BCP 47 tag) are empty where the book does not say them."""

    title: str
    author: str
    language: str
    cover: Cover | None
    chapters: tuple[Chapter, ...]

    @property
    def characters(self) -> int:
        """How much is said."""
        return sum(len(one.text) for chapter in self.chapters for one in chapter.passages)

    @property
    def speakers(self) -> list[str]:
        """Those who are named, in the order of their first words."""
        said = (one.speaker for chapter in self.chapters for one in chapter.passages)
        return list(dict.fromkeys(name for name in said if name is not None))


@dataclass
class Outline:
    """A book before speakers are told apart; each text is a paragraph, with its lines."""

    title: str = ""
    author: str = ""
    language: str = ""
    cover: Cover | None = None
    chapters: list[tuple[str, list[str]]] = field(default_factory=list)

    def begin(self, title: str) -> None:
        """Another chapter."""
        self.chapters.append((title, []))

    def add(self, text: str) -> None:
        """A paragraph, of a chapter without a title if none was begun."""
        if not self.chapters:
            self.begin("")
        self.chapters[-1][1].append(text)
