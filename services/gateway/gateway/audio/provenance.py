"""Statement of a sound's origin: that it is synthetic, by whom, and by which system and model.

The terms are IPTC's: Digital Source Type (NewsCodes, which C2PA uses as well), and AI System Used
of the Photo Metadata Standard 2025.1. docs/provenance.md shows where each container keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
