"""Books that are read aloud: text, Markdown and EPUB as chapters of passages by speaker."""

from ttscommon.books.apart import ReadBook, ReadOrder, read_apart
from ttscommon.books.book import (
    MOST_CHAPTERS,
    NARRATOR,
    Book,
    BookPassage,
    BookPauses,
    Cast,
    Chapter,
    Cover,
    InvalidBook,
    Portion,
    one_line,
    parse_cast,
    portions,
)
from ttscommon.books.reading import KINDS, BookKind, kind_of, read_book

__all__ = [
    "KINDS",
    "MOST_CHAPTERS",
    "NARRATOR",
    "Book",
    "BookKind",
    "BookPassage",
    "BookPauses",
    "Cast",
    "Chapter",
    "Cover",
    "InvalidBook",
    "Portion",
    "ReadBook",
    "ReadOrder",
    "kind_of",
    "one_line",
    "parse_cast",
    "portions",
    "read_apart",
    "read_book",
]
