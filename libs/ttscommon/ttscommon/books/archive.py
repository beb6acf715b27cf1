"""The ZIP file of an EPUB, with bounds on what it may come to."""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import BinaryIO, Final

from ttscommon.books.book import InvalidBook

MOST_FILE_BYTES: Final = 16 << 20
MOST_READ_BYTES: Final = 128 << 20
_MOST_DIRECTORY_BYTES: Final = 4 << 20
_AGAIN: Final = "download or export it again"
_ENCRYPTED: Final = 1
_DAMAGED: Final = (
    *(zipfile.BadZipFile, zlib.error, struct.error),
    *(EOFError, NotImplementedError, OSError, RuntimeError, ValueError),
)
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

# APPNOTE.TXT, 4.3.16 and 4.3.15.
_END: Final = struct.Struct("<4s4H2LH")
_END_MARK: Final = b"PK\x05\x06"
_ZIP64_MARK: Final = b"PK\x06\x07"
_LONGEST_TAIL: Final = _END.size + (1 << 16)


class Archive:
    """Files by their names; nothing is written to disk, and only what is asked for is read."""

    def __init__(self, file: BinaryIO) -> None:
        """Raises InvalidBook."""
        _check_directory(file)
        try:
            self._zip = zipfile.ZipFile(file)
        except _DAMAGED as error:
            raise InvalidBook(f"the EPUB is damaged: {error}; {_AGAIN}") from error
        self._left = MOST_READ_BYTES

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def read(self, name: str) -> bytes:
        """A whole file; raises InvalidBook."""
        if name not in self:
            raise InvalidBook(f"the EPUB names {name}, which is not in it; export it again")
        info = self._zip.getinfo(name)
        if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
            raise InvalidBook(f"{name} is encrypted, or packed in a way that EPUB does not have")
        most = min(MOST_FILE_BYTES, self._left)
        try:
            with self._zip.open(info) as file:
                data = file.read(most + 1)
        except _DAMAGED as error:
            raise InvalidBook(f"{name} is damaged: {error}; {_AGAIN}") from error
        if len(data) > most:
            raise InvalidBook(f"{name} is too large: over {most >> 20} MiB when it is unpacked")
        self._left -= len(data)
        return data


def _check_directory(file: BinaryIO) -> None:
    """Refuse a directory that would fill the memory as soon as it is read."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _LONGEST_TAIL))
    tail = file.read()
    file.seek(0)
    if _END_MARK not in tail:
        raise InvalidBook("the file is no EPUB: it has no ZIP directory; download it again")
    if _ZIP64_MARK in tail or any(size > _MOST_DIRECTORY_BYTES for size in _directories(tail)):
        raise InvalidBook("the EPUB holds too many files")


def _directories(tail: bytes) -> list[int]:
    """What each end of a directory says of its size: a comment may hold another one."""
    found, at = [], tail.find(_END_MARK)
    while at >= 0:
        if at + _END.size <= len(tail):
            found.append(_END.unpack_from(tail, at)[5])
        at = tail.find(_END_MARK, at + 1)
    return found
