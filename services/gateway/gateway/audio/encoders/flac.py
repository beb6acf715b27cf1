"""FLAC by libsndfile, which wants a file: here is one that only grows."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import soundfile

from gateway.audio.resample import Pcm
from gateway.audio.tags import flac_with

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
