"""Ogg pages (RFC 3533) and the headers of Opus in them (RFC 7845)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final

from gateway.audio.tags import vorbis_block

_CONTINUED: Final = 1
_BEGIN: Final = 2
_END: Final = 4
_SEGMENT: Final = 255
_MOST_SEGMENTS: Final = 255
_MIRROR: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


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
