"""The ID3v2.4 tag of a book: titles, cover, and chapters by the Chapter Frame Addendum 1.0."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from gateway.audio.chaptered.description import BookMetadata, ChapterTime
from gateway.audio.tags import id3_frame, id3_frames, id3_tag, id3_text
from ttscommon.books.book import Cover

_FRONT_COVER: Final = b"\x03"
_UTF8: Final = b"\x03"
_NO_OFFSET: Final = 0xFFFFFFFF
_TOP_LEVEL, _ORDERED = 2, 1
# A table counts its children in a byte; more chapters are in tables below the first one.
_MOST_CHILDREN: Final = 255


def book_tag(book: BookMetadata) -> bytes:
    """In front of the frames of sound."""
    said = {b"TIT2": book.title, b"TALB": book.title, b"TPE1": book.author, b"TCON": "Audiobook"}
    texts = b"".join(id3_text(name, value) for name, value in said.items() if value)
    origin = id3_frames(book.provenance) if book.provenance else b""
    cover = _picture(book.cover) if book.cover else b""
    return id3_tag(texts + origin + b"".join(_chapters(book.chapters)) + cover)


def _chapters(chapters: Sequence[ChapterTime]) -> Iterator[bytes]:
    names = [b"chp%d\0" % number for number in range(len(chapters))]
    yield from _tables(names)
    for name, chapter in zip(names, chapters, strict=True):
        times = (round(seconds * 1000) for seconds in (chapter.start_s, chapter.end_s))
        place = struct.pack(">4I", *times, _NO_OFFSET, _NO_OFFSET)
        yield id3_frame(b"CHAP", name + place + id3_text(b"TIT2", chapter.title))


def _tables(names: Sequence[bytes]) -> Iterator[bytes]:
    if len(names) <= _MOST_CHILDREN:
        yield _table(b"toc\0", names, _TOP_LEVEL)
        return
    starts = range(0, len(names), _MOST_CHILDREN)
    parts = {b"toc%d\0" % at: names[at : at + _MOST_CHILDREN] for at in starts}
    yield _table(b"toc\0", list(parts), _TOP_LEVEL)
    yield from (_table(name, below, 0) for name, below in parts.items())


def _table(name: bytes, children: Sequence[bytes], level: int) -> bytes:
    flags = bytes((level | _ORDERED, len(children)))
    return id3_frame(b"CTOC", name + flags + b"".join(children))


def _picture(cover: Cover) -> bytes:
    kind = cover.media_type.encode() + b"\0"
    return id3_frame(b"APIC", _UTF8 + kind + _FRONT_COVER + b"\0" + cover.data)
