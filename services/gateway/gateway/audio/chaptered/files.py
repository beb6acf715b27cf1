"""A book's file by its format, fed with samples at the voice's own rate."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, get_args

from gateway.audio.chaptered.description import BookMetadata
from gateway.audio.chaptered.id3 import book_tag
from gateway.audio.chaptered.m4b import M4bFile
from gateway.audio.chaptered.vorbis import book_comments
from gateway.audio.encoders.chosen import AudioEncoder, Headed, ready
from gateway.audio.encoders.mp3 import Mp3
from gateway.audio.encoders.opus import OggOpus
from gateway.audio.formats import AudioFormat, Codec
from gateway.audio.resample import Pcm, resampler

BookFormat: TypeAlias = Literal["opus", "mp3", "m4b"]
BOOK_FORMATS: Final[tuple[BookFormat, ...]] = get_args(BookFormat)

_CODECS: Final[dict[BookFormat, Codec]] = {"opus": "opus", "mp3": "mp3", "m4b": "aac"}


class BookFile(Protocol):
    """Takes [samples] int16; whole once it is closed."""

    def write(self, pcm: Pcm) -> None: ...
    def close(self) -> None: ...


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


def book_file(path: Path, wanted: BookFormat, sample_rate: int, book: BookMetadata) -> BookFile:
    """Of samples at `sample_rate` Hz; raises Unsupported, OSError."""
    rate = AudioFormat(_CODECS[wanted]).rate_for(sample_rate)
    if wanted == "m4b":
        return _Resampled(M4bFile(path, rate, book), sample_rate, rate)
    return _Resampled(_EncodedFile(path, book_encoder(wanted, rate, book)), sample_rate, rate)


class _Resampled:
    """Another rate in front of a file."""

    def __init__(self, file: BookFile, source_hz: int, target_hz: int) -> None:
        self._file = file
        self._resampler = resampler(source_hz, target_hz)

    def write(self, pcm: Pcm) -> None:
        self._file.write(self._resampler.feed(pcm))

    def close(self) -> None:
        self._file.write(self._resampler.flush())
        self._file.close()


class _EncodedFile:
    """What an encoder makes, written as it comes."""

    def __init__(self, path: Path, encoder: AudioEncoder) -> None:
        self._file = path.open("wb")
        self._encoder = encoder

    def write(self, pcm: Pcm) -> None:
        if len(pcm):
            self._file.write(self._encoder.feed(pcm))

    def close(self) -> None:
        with self._file:
            self._file.write(self._encoder.finish())
