"""M4B (AAC in MP4) by FFmpeg, with the extra `aac`."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from gateway.audio.chaptered.description import BookMetadata, ChapterTime
from gateway.audio.encoders.aac import require_av
from gateway.audio.resample import Pcm
from ttscommon.books.book import Cover

_BIT_RATE: Final = 64_000
_MILLISECOND: Final = Fraction(1, 1000)
_CODECS: Final = {"image/jpeg": "mjpeg", "image/png": "png"}
# An index in front lets players begin before all is there; the brand is Apple's for audio books.
_OPTIONS: Final = {"movflags": "+faststart", "brand": "M4B "}


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
        picture = self._container.add_mux_stream(_CODECS[cover.media_type], width=1, height=1)
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
