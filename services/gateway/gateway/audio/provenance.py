"""Statement of a sound's origin, and its form in each container: ID3, Vorbis comments, RIFF."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import Final

TERM: Final = "trainedAlgorithmicMedia"
_TERMS: Final = "http://cv.iptc.org/newscodes/digitalsourcetype/"
DIGITAL_SOURCE_TYPE: Final = _TERMS + TERM
SYSTEM: Final = "Antiphon"

_SOURCE, _USED, _BY = "DigitalSourceType", "AISystemUsed", "GeneratedBy"
_HEAD: Final = "Synthetic speech"
# What a trained model made, and what it made a part of.
_OF_MODELS: Final = (TERM, "compositeWithTrainedAlgorithmicMedia")
# What stands between the fields of a comment, and what ends a text in some container.
_RESERVED: Final = re.compile(r"[\s\[\];\x00-\x1f\x7f]+")
_LONGEST: Final = 1000
_ENCODINGS: Final = ("utf-8", "utf-16-le", "utf-16-be")


@dataclass(frozen=True)
class Provenance:
    """`model`: its name where it is served, of several separated by commas. `by`: who gives the
    sound out, by name; empty if that is not said.
    """

    model: str
    by: str = ""

    @property
    def fields(self) -> dict[str, str]:
        """Tags by their names, for containers that take any name."""
        said = {_SOURCE: DIGITAL_SOURCE_TYPE, _USED: f"{SYSTEM} {_clean(self.model)}".strip()}
        return {**said, _BY: _clean(self.by)} if self.by else said

    @property
    def comment(self) -> str:
        """The same in one line, for containers that take a comment; `claims` reads it again."""
        return f"{_HEAD} [{'; '.join(f'{name}={value}' for name, value in self.fields.items())}]"

    @property
    def message(self) -> dict[str, str]:
        """The same for a message that names the model already."""
        return {"digital_source_type": TERM, **({"generated_by": self.by} if self.by else {})}

    @property
    def header(self) -> str:
        """The same for a response's header: a dictionary of RFC 9651."""
        said = {"system": SYSTEM, "model": self.model, "by": self.by}
        named = [f"{name}={_item(value)}" for name, value in said.items() if value]
        return ", ".join([f"digital-source-type={TERM}", *named])


def claims(data: bytes | mmap) -> Iterator[dict[str, str]]:
    """What the tags of a file say of its origin, wherever its container keeps them.

    Fields by their names; those that others wrote, in XMP or C2PA, are a Digital Source Type alone.
    """
    found = [_parsed(line) for encoding in _ENCODINGS for line in _comments(data, encoding)]
    own = {repr(one): one for one in found if one}
    yield from own.values()
    if not own:
        yield from ({_SOURCE: _TERMS + term} for term in _OF_MODELS if _named(data, term))


def _comments(data: bytes | mmap, encoding: str) -> Iterator[str]:
    """What stands in the brackets of every comment of ours."""
    within = b"(.{1,%d}?)" % _LONGEST
    pattern = _quoted(f"{_HEAD} [", encoding) + within + _quoted("]", encoding)
    for match in re.finditer(pattern, data, re.DOTALL):
        yield match[1].decode(encoding, "replace")


def _named(data: bytes | mmap, term: str) -> bool:
    words = f"digitalsourcetype/{term}"
    return any(re.search(_quoted(words, encoding), data) for encoding in _ENCODINGS)


def _parsed(line: str) -> dict[str, str]:
    named = (part.partition("=") for part in line.split("; "))
    fields = {name: value for name, equals, value in named if equals}
    return fields if _SOURCE in fields else {}


def _quoted(text: str, encoding: str) -> bytes:
    return re.escape(text.encode(encoding))


def _clean(text: str) -> str:
    return _RESERVED.sub(" ", text).strip()


def _item(text: str) -> str:
    """A String where the text is plain ASCII, else a Display String (RFC 9651, 3.3.3 and 3.3.8)."""
    if text.isascii() and text.isprintable():
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    plain = (0x20 <= byte < 0x7F and byte not in b'%"' for byte in text.encode())
    pairs = zip(text.encode(), plain, strict=True)
    return '%"' + "".join(chr(b) if ok else f"%{b:02x}" for b, ok in pairs) + '"'


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
