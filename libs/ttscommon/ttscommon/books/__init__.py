"""Books that are read aloud: text, Markdown and EPUB as chapters of passages by speaker."""

from ttscommon.books.apart import ReadBook, ReadOrder, read_apart
from ttscommon.books.book import (
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
from ttscommon.books.reading import kind_of, read_book
