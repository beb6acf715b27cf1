"""FLAC by libsndfile, MPEG layer III by LAME, and sound that is kept without loss."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import lameenc
import numpy as np
import soundfile

from gateway.audio.provenance import flac_with
from gateway.audio.resample import Pcm

# In STREAMINFO, whose 36 bits for the length begin in the middle of a byte.
_LENGTH_AT: Final = 21
# libFLAC's level 0: blocks of 1152 samples instead of 4096, so that the first leaves early.
_COMPRESSION: Final = 0.0


class GrowingFile:
    """What was written and not taken yet. What is written over bytes already taken is lost.

    libsndfile comes back to the header when it closes, to fill in lengths that a stream leaves
    open.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._taken = 0
        self._position = 0

    def write(self, data: bytes) -> int:
        data = bytes(data)
        over = max(0, self._taken - self._position)
        start = self._position + min(over, len(data)) - self._taken
        fresh = data[over:]
        self._pending[start : start + len(fresh)] = fresh
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing is buffered behind it."""

    def take(self) -> bytes:
        """What is new."""
        data = bytes(self._pending)
        self._taken += len(data)
        self._pending.clear()
        return data

    @property
    def pending(self) -> int:
        """Bytes not taken yet."""
        return len(self._pending)

    @property
    def _size(self) -> int:
        return self._taken + len(self._pending)


class Flac:
    """16 bits, mono, lossless; its header leaves the length open. `comments`: lines of
    `NAME=value`.
    """

    def __init__(self, sample_rate: int, comments: Sequence[str] = ()) -> None:
        self._file = GrowingFile()
        self._writer = soundfile.SoundFile(
            self._file, "w", sample_rate, 1, "PCM_16", format="FLAC",
            compression_level=_COMPRESSION,
        )  # fmt: skip
        self._head = self._file.pending
        self._comments = comments

    def feed(self, pcm: Pcm) -> bytes:
        self._writer.write(pcm)
        return self._made()

    def finish(self) -> bytes:
        self._writer.close()
        return self._made()

    def _made(self) -> bytes:
        if self._file.pending <= self._head:
            return b""
        data, comments = self._file.take(), self._comments
        self._head, self._comments = 0, ()
        return flac_with(comments, data) if comments else data


def with_length(data: bytes, samples: int) -> bytes:
    """The beginning of a stream whose length is known by now, in its header."""
    told = bytearray(data)
    first = told[_LENGTH_AT] & 0xF0 | samples >> 32
    told[_LENGTH_AT : _LENGTH_AT + 5] = bytes((first,)) + (samples & 0xFFFFFFFF).to_bytes(4, "big")
    return bytes(told)


# LAME's scale from 0 (best) to 9: speech at these bit rates sounds alike from 2 to 7.
_QUALITY: Final = 7
_FULL_BAND_HZ: Final = 32_000


def default_bit_rate(sample_rate: int) -> int:
    """Bits a second that speech at `sample_rate` Hz needs."""
    return 128_000 if sample_rate >= _FULL_BAND_HZ else 64_000


class Mp3:
    """Constant bit rate, mono, without an info frame: frames from the first byte on."""

    def __init__(self, sample_rate: int, bit_rate: int | None) -> None:
        self._encoder = lameenc.Encoder()
        self._encoder.set_bit_rate((bit_rate or default_bit_rate(sample_rate)) // 1000)
        self._encoder.set_in_sample_rate(sample_rate)
        self._encoder.set_out_sample_rate(sample_rate)
        self._encoder.set_channels(1)
        self._encoder.set_quality(_QUALITY)
        self._encoder.silence()
        self._fed = False

    def feed(self, pcm: Pcm) -> bytes:
        self._fed = True
        return bytes(self._encoder.encode(pcm.astype("<i2", copy=False).tobytes()))

    def finish(self) -> bytes:
        return bytes(self._encoder.flush()) if self._fed else b""


def packed(pcm: Pcm, sample_rate: int) -> bytes:
    """[samples] int16 as FLAC. libFLAC knows no file without samples: nothing for nothing."""
    if not len(pcm):
        return b""
    file = io.BytesIO()
    soundfile.write(file, pcm, sample_rate, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def unpacked(data: bytes) -> Pcm:
    """The same samples; raises soundfile.LibsndfileError for anything else."""
    if not data:
        return np.zeros(0, np.int16)
    pcm: Pcm = soundfile.read(io.BytesIO(data), dtype="int16")[0]
    return pcm
