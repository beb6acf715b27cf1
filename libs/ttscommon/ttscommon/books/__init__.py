"""Books that are read aloud: text, Markdown and EPUB as chapters of passages by speaker."""

from ttscommon.books.apart import ReadBook, ReadOrder, read_apart
from ttscommon.books.book import (
    MOST_CHAPTERS,
    Book,
    BookPassage,
    Chapter,
    Cover,
    InvalidBook,
    one_line,
)
from ttscommon.books.cast import NARRATOR, Cast, parse_cast
from ttscommon.books.portions import BookPauses, Portion, portions
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
