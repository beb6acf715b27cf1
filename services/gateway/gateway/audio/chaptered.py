"""Files of a whole book: Ogg Opus, MP3 and M4B with chapters, a cover and what is known of it.

A file is fed with samples at the voice's own rate.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from gateway.audio.encoders.aac import require_av
from gateway.audio.encoders.chosen import AudioEncoder, Headed, ready
from gateway.audio.encoders.compressed import Mp3
from gateway.audio.encoders.opus import OggOpus
from gateway.audio.files import EncodedFile, Resampled, SoundFile
from gateway.audio.formats import AudioFormat, Codec
from gateway.audio.provenance import (
    Provenance,
    id3_frame,
    id3_frames,
    id3_tag,
    id3_text,
    vorbis_comments,
)
from gateway.audio.resample import Pcm
from ttscommon.books.book import Cover

_BIT_RATE: Final = 64_000
_MILLISECOND: Final = Fraction(1, 1000)
_COVER_CODECS: Final = {"image/jpeg": "mjpeg", "image/png": "png"}
# An index in front lets players begin before all is there; the brand is Apple's for audio books.
_OPTIONS: Final = {"movflags": "+faststart", "brand": "M4B "}
_FRONT_COVER_KIND: Final = 3
_FRONT_COVER: Final = b"\x03"
_UTF8: Final = b"\x03"
_NO_OFFSET: Final = 0xFFFFFFFF
_TOP_LEVEL, _ORDERED = 2, 1
# A table counts its children in a byte; more chapters are in tables below the first one.
_MOST_CHILDREN: Final = 255
BookFormat: TypeAlias = Literal["opus", "mp3", "m4b"]
BOOK_FORMATS: Final[tuple[BookFormat, ...]] = get_args(BookFormat)

_CODECS: Final[dict[BookFormat, Codec]] = {"opus": "opus", "mp3": "mp3", "m4b": "aac"}


def require(wanted: BookFormat) -> None:
    """Raises Unsupported for a format that is not installed here."""
    ready(AudioFormat(_CODECS[wanted]))


def book_encoder(
    wanted: Literal["opus", "mp3"], sample_rate: int, book: BookMetadata
) -> AudioEncoder:
    """An encoder at a rate that the codec has, for formats that are whole without seeking."""
    if wanted == "opus":
        return OggOpus(sample_rate, None, book_comments(book))
    return Headed(book_tag(book), Mp3(sample_rate, None))


def book_file(path: Path, wanted: BookFormat, sample_rate: int, book: BookMetadata) -> SoundFile:
    """Of samples at `sample_rate` Hz; raises Unsupported, OSError."""
    rate = AudioFormat(_CODECS[wanted]).rate_for(sample_rate)
    if wanted == "m4b":
        return Resampled(M4bFile(path, rate, book), sample_rate, rate)
    return Resampled(EncodedFile(path, book_encoder(wanted, rate, book)), sample_rate, rate)


@dataclass(frozen=True)
class ChapterTime:
    """A chapter from its first sample to the next chapter's, in seconds."""

    title: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class BookMetadata:
    """Empty where it is not known. Chapters are in order, and at most 999.

    provenance: that the voice is synthetic; None where that is not to be said.
    """

    title: str
    author: str = ""
    language: str = ""
    cover: Cover | None = None
    chapters: tuple[ChapterTime, ...] = ()
    provenance: Provenance | None = None


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
    picture = (_picture_comment(book.cover),) if book.cover else ()
    return (*known, *_chapter_comments(book), *vorbis_comments(book.provenance), *picture)


def _chapter_comments(book: BookMetadata) -> Iterator[str]:
    for number, chapter in enumerate(book.chapters):
        yield f"CHAPTER{number:03}={_time(chapter.start_s)}"
        yield f"CHAPTER{number:03}NAME={chapter.title}"


def _time(seconds: float) -> str:
    minutes, milliseconds = divmod(round(seconds * 1000), 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{milliseconds // 1000:02}.{milliseconds % 1000:03}"


def _picture_comment(cover: Cover) -> str:
    """Its width, height and depth are left to the image itself."""
    kind = cover.media_type.encode()
    head = struct.pack(">II", _FRONT_COVER_KIND, len(kind)) + kind
    block = head + struct.pack(">6I", 0, 0, 0, 0, 0, len(cover.data)) + cover.data
    return f"METADATA_BLOCK_PICTURE={base64.b64encode(block).decode()}"


class M4bFile:
    """Mono; whole once it is closed. Raises Unsupported where PyAV is not installed."""

    def __init__(self, path: Path, sample_rate: int, book: BookMetadata) -> None:
        av = require_av()
        self._rate = sample_rate
        self._written = 0
        # The muxer for iPods takes no covers that are not encoded here.
        self._container = av.open(str(path), "w", format="mp4", container_options=_OPTIONS)
        self._container.metadata.update(_metadata(book))
        self._container.set_chapters([_chapter(*one) for one in enumerate(book.chapters)])
        self._sound = self._container.add_stream("aac", rate=sample_rate, layout="mono")
        self._sound.bit_rate = _BIT_RATE
        if book.cover:
            self._add_cover(book.cover)

    def write(self, pcm: Pcm) -> None:
        """[samples] int16."""
        if not len(pcm):
            return
        plane = np.ascontiguousarray(pcm).reshape(1, -1)
        frame = require_av().AudioFrame.from_ndarray(plane, format="s16", layout="mono")
        frame.sample_rate = self._rate
        frame.pts = self._written
        frame.time_base = Fraction(1, self._rate)
        self._written += len(pcm)
        self._container.mux(self._sound.encode(frame))

    def close(self) -> None:
        self._container.mux(self._sound.encode(None))
        self._container.close()

    def _add_cover(self, cover: Cover) -> None:
        av = require_av()
        # A stream of pictures has dimensions; what is stored of a cover is the image alone.
        picture = self._container.add_mux_stream(_COVER_CODECS[cover.media_type], width=1, height=1)
        picture.disposition = av.stream.Disposition.attached_pic
        packet = av.Packet(cover.data)
        packet.stream = picture
        packet.pts = packet.dts = 0
        self._container.mux(packet)


def _metadata(book: BookMetadata) -> dict[str, str]:
    comment = book.provenance.comment if book.provenance else ""
    said = {"title": book.title, "album": book.title, "artist": book.author, "comment": comment}
    return {"genre": "Audiobook", **{name: value for name, value in said.items() if value}}


def _chapter(number: int, chapter: ChapterTime) -> dict[str, Any]:
    return {
        "id": number,
        "start": round(chapter.start_s * 1000),
        "end": round(chapter.end_s * 1000),
        "time_base": _MILLISECOND,
        "metadata": {"title": chapter.title},
    }
