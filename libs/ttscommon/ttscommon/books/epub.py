"""EPUB 2 and 3: the documents of the spine, cut into chapters by the list of contents."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import BinaryIO, Final

from ttscommon.books.book import MOST_CHAPTERS, Cover, InvalidBook, Outline
from ttscommon.books.package import ContentsEntry, Package, read_contents, read_package, resolve
from ttscommon.books.xhtml import Elements, Section, parse_xml, read_xhtml

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
_CONTAINER: Final = "META-INF/container.xml"
_ENCRYPTION: Final = "META-INF/encryption.xml"
_PACKAGE: Final = "application/oebps-package+xml"

Titles = Mapping[str, list[ContentsEntry]]


def read_epub(file: BinaryIO) -> Outline:
    """Raises InvalidBook."""
    archive = Archive(file)
    where = _package_path(archive)
    package = read_package(archive.read(where), where)
    lists = {resolve(where, href)[0] for href in package.lists}
    paths = (resolve(where, item.href)[0] for item in package.spine)
    # A document that is named twice is not read twice.
    spine = [path for path in dict.fromkeys(paths) if path not in lists]
    if not spine:
        raise InvalidBook(f"{where} names no document to read; export the book again")
    _refuse_protected(archive, spine)
    outline = Outline(package.title, package.author, package.language)
    outline.cover = _cover(archive, package, where)
    titles = _titles(archive, package, where)
    if titles.keys().isdisjoint(spine):
        _by_document(outline, archive, spine)
    else:
        _by_contents(outline, archive, spine, titles)
    return outline


def _package_path(archive: Archive) -> str:
    if _CONTAINER not in archive:
        raise InvalidBook(f"the file is no EPUB: it has no {_CONTAINER}")
    found = _Attributes("rootfile", "full-path", "media-type")
    parse_xml(archive.read(_CONTAINER), found, _CONTAINER)
    paths = [path for path, kind in found.values if kind in ("", _PACKAGE)]
    if not paths:
        raise InvalidBook(f"{_CONTAINER} names no package document; export the book again")
    return resolve("", paths[0])[0]


def _refuse_protected(archive: Archive, spine: list[str]) -> None:
    """Fonts may be encrypted: that keeps no one from reading."""
    if _ENCRYPTION not in archive:
        return
    found = _Attributes("cipherreference", "uri")
    parse_xml(archive.read(_ENCRYPTION), found, _ENCRYPTION)
    protected = {resolve("", uri)[0] for uri, *_ in found.values}
    if not protected.isdisjoint(spine):
        raise InvalidBook("the book is protected (DRM): only a copy without protection can be read")


def _cover(archive: Archive, package: Package, where: str) -> Cover | None:
    item = package.cover_image
    path = resolve(where, item.href)[0] if item else ""
    return Cover.of(archive.read(path)) if path in archive else None


def _titles(archive: Archive, package: Package, where: str) -> Titles:
    """The first list of contents that there is, by file."""
    for item in package.contents:
        path = resolve(where, item.href)[0]
        if path in archive and (entries := read_contents(archive.read(path), path)):
            return _by_path(entries)
    return {}


def _by_path(entries: list[ContentsEntry]) -> Titles:
    """As deep as there are no more chapters than a file may have."""
    counts = Counter(entry.depth for entry in entries)
    depth, total = 0, 0
    for deeper in sorted(counts):
        total += counts[deeper]
        if depth and total > MOST_CHAPTERS:
            break
        depth = deeper
    found = defaultdict(list)
    for entry in entries:
        if entry.depth <= depth:
            found[entry.path].append(entry)
    return found


def _by_contents(outline: Outline, archive: Archive, spine: list[str], titles: Titles) -> None:
    """A document that the list does not name belongs to the chapter before it."""
    for path in spine:
        section = read_xhtml(archive.read(path), path)
        starts = _starts(section, titles.get(path, []))
        for number, paragraph in enumerate(section.paragraphs):
            if number in starts:
                outline.begin(starts[number])
            outline.add(paragraph.text)


def _starts(section: Section, entries: list[ContentsEntry]) -> Mapping[int, str]:
    """Titles by the paragraph that begins the chapter. Of several the last is the deepest, and one
    without a place of its own is the document's only if no other is.
    """
    starts: dict[int, str] = {}
    for entry in entries:
        if entry.fragment in section.anchors:
            starts[section.anchors[entry.fragment]] = entry.title
        else:
            starts.setdefault(0, entry.title)
    return starts


def _by_document(outline: Outline, archive: Archive, spine: list[str]) -> None:
    for path in spine:
        paragraphs = read_xhtml(archive.read(path), path).paragraphs
        if paragraphs:
            headings = (one.text for one in paragraphs if one.level)
            outline.begin(next(headings, ""))
        for paragraph in paragraphs:
            outline.add(paragraph.text)


class _Attributes(Elements):
    """Gathers attributes of all elements of one name; empty where an element has none."""

    def __init__(self, element: str, *names: str) -> None:
        self.values: list[tuple[str, ...]] = []
        self._element, self._names = element, names

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == self._element:
            folded = {key.lower(): value for key, value in attributes.items()}
            self.values.append(tuple(folded.get(one, "") for one in self._names))


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
