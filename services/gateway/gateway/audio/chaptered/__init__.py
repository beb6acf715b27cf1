"""Files of a whole book: Ogg Opus, MP3 and M4B with chapters, a cover and what is known of it."""

from gateway.audio.chaptered.files import (
    BOOK_FORMATS,
    BookFile,
    BookFormat,
    BookMetadata,
    ChapterTime,
    book_encoder,
    book_file,
    require,
)

__all__ = [
    "BOOK_FORMATS",
    "BookFile",
    "BookFormat",
    "BookMetadata",
    "ChapterTime",
    "book_encoder",
    "book_file",
    "require",
]
