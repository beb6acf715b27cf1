"""Opus in Ogg, one page for what each feed gives, so that nothing waits for a page to fill."""

from __future__ import annotations

import ctypes
import secrets
import struct
import weakref
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from gateway.audio.provenance import vorbis_block
from gateway.audio.resample import Pcm
from gateway.errors import Unsupported

_PACKAGE: Final = "opuslib_next"
_FILES: Final = ("libopus.so", "libopus.dylib")
_OF_THE_SYSTEM: Final = ("libopus.so.0", "libopus.0.dylib")

# opus_defines.h
_AUDIO: Final = 2049
_SET_BITRATE: Final = 4002
_SET_COMPLEXITY: Final = 4010
_GET_LOOKAHEAD: Final = 4027
# The longest packet that its documentation recommends room for.
_PACKET_BYTES: Final = 4000


class OpusFailed(Exception):
    """libopus refused what it was told; the text is its own."""


def candidates() -> Iterator[str]:
    """Where the library may lie, the package's in front."""
    spec = find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from (str(Path(folder) / "_native" / name) for name in _FILES)
    yield from _OF_THE_SYSTEM


@cache
def library() -> ctypes.CDLL:
    """libopus with its signatures; raises Unsupported where there is none."""
    for name in candidates():
        try:
            return _declared(ctypes.CDLL(name))
        except OSError:
            continue
    raise Unsupported(
        "Opus needs libopus: install antiphon-gateway[opus], or the system's (Debian: libopus0)",
        param="response_format",
    )


def _declared(found: ctypes.CDLL) -> ctypes.CDLL:
    found.opus_strerror.restype = ctypes.c_char_p
    found.opus_encoder_create.restype = ctypes.c_void_p
    found.opus_encoder_create.argtypes = [
        *(ctypes.c_int32, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int)),
    ]
    found.opus_encoder_destroy.argtypes = [ctypes.c_void_p]
    # What comes behind these two is variadic.
    found.opus_encoder_ctl.argtypes = [ctypes.c_void_p, ctypes.c_int]
    found.opus_encode.argtypes = [
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int32),
    ]
    return found


class OpusEncoder:
    """Mono, for speech and music alike; `sample_rate` is one of Opus' own five.

    Raises Unsupported where libopus is not installed, OpusFailed where it refuses.
    """

    def __init__(self, sample_rate: int, bit_rate: int, complexity: int) -> None:
        self._library, error = library(), ctypes.c_int()
        made = self._library.opus_encoder_create(sample_rate, 1, _AUDIO, ctypes.byref(error))
        self._checked(error.value)
        self._state = ctypes.c_void_p(made)
        weakref.finalize(self, self._library.opus_encoder_destroy, self._state)
        self._packet = ctypes.create_string_buffer(_PACKET_BYTES)
        self._tell(_SET_BITRATE, ctypes.c_int32(bit_rate))
        self._tell(_SET_COMPLEXITY, ctypes.c_int32(complexity))

    @property
    def lookahead(self) -> int:
        """Samples that the sound comes late by."""
        found = ctypes.c_int32()
        self._tell(_GET_LOOKAHEAD, ctypes.byref(found))
        return found.value

    def encode(self, frame: Pcm) -> bytes:
        """A packet of [samples] int16, of a length that Opus has."""
        samples = np.ascontiguousarray(frame, dtype=np.int16)
        length = self._library.opus_encode(
            self._state, samples.ctypes.data, len(samples), self._packet, _PACKET_BYTES
        )
        return self._packet.raw[: self._checked(length)]

    def _tell(self, request: int, value: object) -> None:
        self._checked(self._library.opus_encoder_ctl(self._state, request, value))

    def _checked(self, status: int) -> int:
        if status < 0:
            raise OpusFailed(self._library.opus_strerror(status).decode())
        return status


_CONTINUED: Final = 1
_BEGIN: Final = 2
_END: Final = 4
_SEGMENT: Final = 255
_MOST_SEGMENTS: Final = 255
_MIRROR: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_FRAME_S: Final = 0.02
_CLOCK_HZ: Final = 48_000
# Complexity 5 of 10: the cost falls by a third, and speech sounds the same.
_COMPLEXITY: Final = 5
_DEFAULT_BIT_RATE: Final = 48_000
_MAX_PACKETS: Final = 50


class OggOpus:
    """Mono; `sample_rate` is one of Opus' own five, `comments` lines of `NAME=value`."""

    def __init__(
        self, sample_rate: int, bit_rate: int | None, comments: Sequence[str] = ()
    ) -> None:
        self._encoder = OpusEncoder(sample_rate, bit_rate or _DEFAULT_BIT_RATE, _COMPLEXITY)
        self._rate = sample_rate
        self._comments = comments
        self._frame = int(sample_rate * _FRAME_S)
        self._lookahead = self._encoder.lookahead
        self._ogg = OggStream(secrets.randbits(32))
        self._held: Pcm = np.zeros(0, np.int16)
        self._fed = 0
        self._encoded = 0
        self._begun = False

    def feed(self, pcm: Pcm) -> bytes:
        self._fed += len(pcm)
        held = np.concatenate([self._held, pcm])
        # One frame stays, so that the last page, which says where the audio ends, is never empty.
        frames = max(0, (len(held) - 1) // self._frame)
        packets = self._packets(held[: frames * self._frame])
        self._held = held[frames * self._frame :]
        return self._head() + self._pages(packets) if packets else b""

    def finish(self) -> bytes:
        if not self._fed:
            return b""
        missing = self._fed + self._lookahead - self._encoded
        frames = max(1, -(-missing // self._frame))
        rest = np.zeros(frames * self._frame, np.int16)
        rest[: len(self._held)] = self._held
        packets = self._packets(rest)
        end = self._position(self._fed + self._lookahead)
        return self._head() + self._ogg.page(packets, end, last=True)

    def _head(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        pre_skip = self._position(self._lookahead)
        head = self._ogg.page([opus_head(self._rate, pre_skip)], 0)
        return head + self._ogg.pages(opus_tags(self._comments), 0)

    def _packets(self, pcm: Pcm) -> list[bytes]:
        return [self._encoder.encode(one) for one in pcm.reshape(-1, self._frame)]

    def _pages(self, packets: list[bytes]) -> bytes:
        pages = b""
        for start in range(0, len(packets), _MAX_PACKETS):
            part = packets[start : start + _MAX_PACKETS]
            self._encoded += len(part) * self._frame
            pages += self._ogg.page(part, self._position(self._encoded))
        return pages

    def _position(self, samples: int) -> int:
        return samples * _CLOCK_HZ // self._rate


def checksum(data: bytes) -> int:
    """CRC-32 as Ogg computes it: from 0, high bits first; zlib's runs low bits first."""
    mirrored = zlib.crc32(data.translate(_MIRROR), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(_MIRROR), "big")


class OggStream:
    """One logical stream."""

    def __init__(self, serial: int) -> None:
        self._serial = serial
        self._sequence = 0

    def page(self, packets: Sequence[bytes], position: int, *, last: bool = False) -> bytes:
        """A page of whole packets, at most 255 segments; `position` in samples at 48 kHz."""
        lacing = b"".join(_lacing(len(packet)) for packet in packets)
        return self._page(lacing, b"".join(packets), position, _END if last else 0)

    def pages(self, packet: bytes, position: int) -> bytes:
        """One packet of any length, on as many pages as it fills; it ends on the last of them."""
        lacing = _lacing(len(packet))
        made = b""
        for at in range(0, len(lacing), _MOST_SEGMENTS):
            part = lacing[at : at + _MOST_SEGMENTS]
            start = at * _SEGMENT
            body = packet[start : start + sum(part)]
            ends = at + _MOST_SEGMENTS >= len(lacing)
            made += self._page(part, body, position if ends else -1, _CONTINUED if at else 0)
        return made

    def _page(self, lacing: bytes, body: bytes, position: int, flags: int) -> bytes:
        flags |= 0 if self._sequence else _BEGIN
        head = struct.pack(
            "<4sBBqIIIB", b"OggS", 0, flags, position, self._serial, self._sequence, 0, len(lacing)
        )
        self._sequence += 1
        page = bytearray(head + lacing + body)
        page[22:26] = struct.pack("<I", checksum(bytes(page)))
        return bytes(page)


def _lacing(length: int) -> bytes:
    whole, rest = divmod(length, _SEGMENT)
    return b"\xff" * whole + bytes((rest,))


def opus_head(sample_rate: int, pre_skip: int) -> bytes:
    """The identification header of a mono stream; `pre_skip` in samples at 48 kHz."""
    return struct.pack("<8sBBHIhB", b"OpusHead", 1, 1, pre_skip, sample_rate, 0, 0)


def opus_tags(comments: Sequence[str] = ()) -> bytes:
    """The comment header, with lines of `NAME=value`."""
    return b"OpusTags" + vorbis_block(comments)
