"""A file as a book, whatever of the three kinds it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import BinaryIO, Final, Literal, TypeAlias, get_args

from ttscommon.books.book import (
    MOST_CHAPTERS,
    MOST_CHARACTERS,
    Book,
    Chapter,
    InvalidBook,
    Outline,
    one_line,
)
from ttscommon.books.cast import Speakers
from ttscommon.books.epub import read_epub
from ttscommon.books.markdown import read_markdown
from ttscommon.books.plain import MOST_BYTES, read_text

BookKind: TypeAlias = Literal["text", "markdown", "epub"]
KINDS: Final[tuple[BookKind, ...]] = get_args(BookKind)

_LONGEST_LANGUAGE: Final = 35
_SUFFIXES: Final[dict[str, BookKind]] = {
    ".txt": "text",
    ".text": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".epub": "epub",
}


def kind_of(name: str) -> BookKind:
    """By the name's ending; raises InvalidBook."""
    suffix = PurePath(name).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InvalidBook(f"{name} is no book that is read here: {', '.join(_SUFFIXES)}")
    return _SUFFIXES[suffix]


def read_book(
    file: BinaryIO, kind: BookKind, *, speakers: Iterable[str] = (), title: str = ""
) -> Book:
    """Read a file that can be sought in; raises InvalidBook.

    speakers: names that count at the beginning of a line as who says it, in any case; of a cast,
    or of voices. title: for a book that says none.
    """
    match kind:
        case "epub":
            outline = read_epub(file)
        case "markdown":
            outline = read_markdown(file.read(MOST_BYTES + 1))
        case "text":
            outline = read_text(file.read(MOST_BYTES + 1))
    return _book(outline, Speakers(speakers), title)


def _book(outline: Outline, speakers: Speakers, title: str) -> Book:
    title = one_line(outline.title) or one_line(title) or "Untitled"
    said = [
        (one_line(name), tuple(passage for text in texts for passage in speakers.passages(text)))
        for name, texts in outline.chapters
    ]
    chapters = tuple(
        Chapter(name or (title if number == 1 else str(number)), passages)
        for number, (name, passages) in enumerate(filter(lambda one: one[1], said), 1)
    )
    author, language = one_line(outline.author), one_line(outline.language)[:_LONGEST_LANGUAGE]
    return _bounded(Book(title, author, language, outline.cover, chapters))


def _bounded(book: Book) -> Book:
    if not book.chapters:
        raise InvalidBook("there is no text in the book")
    count = len(book.chapters)
    if count > MOST_CHAPTERS:
        raise InvalidBook(f"the book has {count} chapters; {MOST_CHAPTERS} are the most")
    if book.characters > MOST_CHARACTERS:
        raise InvalidBook(f"the book has over {MOST_CHARACTERS:,} characters: read it in parts")
    return book
