"""Provenance as each container carries it: ID3, Vorbis comments, the INFO list of RIFF.

Every function gives nothing for None: the operator turned it off. Writers of other containers take
`Provenance.comment` and `Provenance.fields` as they are: MP4's comment, for example.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from gateway.audio.provenance import SYSTEM, Provenance

_UTF8: Final = b"\x03"
_LANGUAGE: Final = b"eng"
_VENDOR: Final = b"antiphon"
_FLAC: Final = b"fLaC"
_VORBIS_COMMENT: Final = 4


def id3(provenance: Provenance | None) -> bytes:
    """The tag in front of mp3, and of AAC in ADTS."""
    return b"" if provenance is None else id3_tag(id3_frames(provenance))


def id3_tag(frames: bytes) -> bytes:
    """An ID3v2.4 tag of whole frames (id3.org, ID3v2.4.0 structure, 3.1)."""
    return b"ID3\x04\x00\x00" + _syncsafe(len(frames)) + frames


def id3_frames(provenance: Provenance) -> bytes:
    """A comment, and a text of one's own for each field."""
    comment = id3_frame(b"COMM", _UTF8 + _LANGUAGE + b"\0" + provenance.comment.encode())
    own = (id3_text(b"TXXX", f"{name}\0{value}") for name, value in provenance.fields.items())
    return b"".join((comment, *own))


def id3_text(name: bytes, text: str) -> bytes:
    """A frame of text."""
    return id3_frame(name, _UTF8 + text.encode())


def id3_frame(name: bytes, content: bytes) -> bytes:
    """A frame of ID3v2.4 (ID3v2.4.0 structure, 4): four letters, and what they stand for."""
    return name + _syncsafe(len(content)) + b"\0\0" + content


def _syncsafe(size: int) -> bytes:
    """Seven bits a byte, so that no size looks like a frame of sound."""
    return bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0))


def vorbis_comments(provenance: Provenance | None) -> tuple[str, ...]:
    """Lines for Ogg and FLAC."""
    if provenance is None:
        return ()
    own = (f"{name.upper()}={value}" for name, value in provenance.fields.items())
    return f"COMMENT={provenance.comment}", *own


def vorbis_block(comments: Sequence[str]) -> bytes:
    """A comment header without what Vorbis itself puts around it (Vorbis I, 5.2.1)."""
    lines = [line.encode() for line in comments]
    counted = b"".join(struct.pack("<I", len(line)) + line for line in lines)
    return struct.pack("<I", len(_VENDOR)) + _VENDOR + struct.pack("<I", len(lines)) + counted


def flac_with(comments: Sequence[str], data: bytes) -> bytes:
    """The beginning of a FLAC stream, with these comments in place of its encoder's (RFC 9639, 8).

    `data` holds all metadata blocks at least.
    """
    blocks, at, last = [], len(_FLAC), 0
    while not last:
        last, kind = data[at] & 0x80, data[at] & 0x7F
        end = at + 4 + int.from_bytes(data[at + 1 : at + 4])
        if kind != _VORBIS_COMMENT:
            blocks.append(bytes((kind,)) + data[at + 1 : end])
        at = end
    own = vorbis_block(comments)
    blocks.append(bytes((0x80 | _VORBIS_COMMENT,)) + len(own).to_bytes(3) + own)
    return _FLAC + b"".join(blocks) + data[at:]


def riff_info(provenance: Provenance | None) -> bytes:
    """The chunk that stands in front of a WAV's samples."""
    if provenance is None:
        return b""
    texts = _text(b"ISFT", SYSTEM) + _text(b"ICMT", provenance.comment)
    return struct.pack("<4sI4s", b"LIST", 4 + len(texts), b"INFO") + texts


def _text(name: bytes, value: str) -> bytes:
    data = value.encode() + b"\0"
    return struct.pack("<4sI", name, len(data)) + data + b"\0" * (len(data) % 2)
