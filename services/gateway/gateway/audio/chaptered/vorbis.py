"""Comments of Ogg Opus: chapters as players of Matroska's authors write them, the cover as FLAC's.

Chapters are `CHAPTER000=00:00:00.000` and `CHAPTER000NAME=title` (wiki.xiph.org/Chapter_Extension),
a cover is METADATA_BLOCK_PICTURE (RFC 9639, 8.8, in base64).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Final

from gateway.audio.chaptered.description import BookMetadata
from gateway.audio.tags import vorbis_comments
from ttscommon.books.book import Cover

_FRONT_COVER: Final = 3


def book_comments(book: BookMetadata) -> tuple[str, ...]:
    """Lines of `NAME=value`."""
    said = {
        "TITLE": book.title,
        "ALBUM": book.title,
        "ARTIST": book.author,
        "LANGUAGE": book.language,
        "GENRE": "Audiobook",
    }
    known = (f"{name}={value}" for name, value in said.items() if value)
    picture = (_picture(book.cover),) if book.cover else ()
    return (*known, *_chapters(book), *vorbis_comments(book.provenance), *picture)


def _chapters(book: BookMetadata) -> Iterator[str]:
    for number, chapter in enumerate(book.chapters):
        yield f"CHAPTER{number:03}={_time(chapter.start_s)}"
        yield f"CHAPTER{number:03}NAME={chapter.title}"


def _time(seconds: float) -> str:
    minutes, milliseconds = divmod(round(seconds * 1000), 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{milliseconds // 1000:02}.{milliseconds % 1000:03}"


def _picture(cover: Cover) -> str:
    """Its width, height and depth are left to the image itself."""
    kind = cover.media_type.encode()
    head = struct.pack(">II", _FRONT_COVER, len(kind)) + kind
    block = head + struct.pack(">6I", 0, 0, 0, 0, 0, len(cover.data)) + cover.data
    return f"METADATA_BLOCK_PICTURE={base64.b64encode(block).decode()}"
