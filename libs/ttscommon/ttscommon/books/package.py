"""The package document of an EPUB: metadata, files and the order in which they are read."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import unquote

from ttscommon.books.xhtml import Elements, parse_xml

_AUTHOR: Final = ("", "aut")
_XHTML: Final = "application/xhtml+xml"
_NCX: Final = "application/x-dtbncx+xml"
# Documents of OEB 1.2 and what careless programs call XHTML.
_READ: Final = (_XHTML, "text/html", "text/x-oeb1-document", "application/xml")


@dataclass(frozen=True)
class ManifestItem:
    """A file of the book. `href` is relative to the package document."""

    id: str
    href: str
    media_type: str
    properties: frozenset[str] = frozenset()


@dataclass
class Package:
    """What a package document says, as far as a reader needs it.

    lists: documents that are a list of contents, as EPUB 2 names them.
    """

    title: str = ""
    language: str = ""
    items: dict[str, ManifestItem] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    ncx: str = ""
    cover: str = ""
    lists: list[str] = field(default_factory=list)
    creators: list[tuple[str, str, str]] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict)

    @property
    def author(self) -> str:
        """Those who wrote it; all who made it if no one is said to have."""
        named = [(name, role or self.roles.get(id_, "")) for id_, role, name in self.creators]
        wrote = [name for name, role in named if role in _AUTHOR]
        return ", ".join(wrote or [name for name, _ in named])

    @property
    def spine(self) -> list[ManifestItem]:
        """The documents that are read, in order."""
        known = [self.items[one] for one in self.order if one in self.items]
        return [one for one in known if one.media_type in _READ and "nav" not in one.properties]

    @property
    def contents(self) -> list[ManifestItem]:
        """What may hold a list of contents: EPUB 3's document first, then EPUB 2's."""
        ncx = self.items.get(self.ncx)
        found = [one for one in self.items.values() if "nav" in one.properties]
        found += [ncx] if ncx else []
        return found + [one for one in self.items.values() if one.media_type == _NCX]

    @property
    def cover_image(self) -> ManifestItem | None:
        images = [one for one in self.items.values() if one.media_type.startswith("image/")]
        named = (one for one in images if "cover-image" in one.properties)
        # EPUB 2 names it in the metadata, by its id and at times by its file.
        older = (one for one in images if self.cover and self.cover in (one.id, one.href))
        return next(named, None) or next(older, None)


def read_package(data: bytes, where: str) -> Package:
    """Raises InvalidBook."""
    reader = _PackageReader()
    parse_xml(data, reader, where)
    return reader.package


class _PackageReader(Elements):
    def __init__(self) -> None:
        self.package = Package()
        self._in_metadata = False
        self._attributes: Mapping[str, str] = {}
        self._text: list[str] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._text.clear()
        self._attributes = attributes
        match name:
            case "metadata":
                self._in_metadata = True
            case "meta" if attributes.get("name") == "cover":
                self.package.cover = attributes.get("content", "")
            case "item":
                self._item(attributes)
            case "itemref" if attributes.get("linear") != "no":
                self.package.order.append(attributes.get("idref", ""))
            case "reference" if attributes.get("type", "").lower() == "toc":
                self.package.lists.append(attributes.get("href", ""))
            case "spine":
                self.package.ncx = attributes.get("toc", "")

    def text(self, data: str) -> None:
        self._text.append(data)

    def end(self, name: str) -> None:
        text = " ".join("".join(self._text).split())
        self._text.clear()
        if name == "metadata":
            self._in_metadata = False
        elif self._in_metadata and text:
            self._metadata(name, text)

    def _item(self, attributes: Mapping[str, str]) -> None:
        id_ = attributes.get("id", "")
        properties = frozenset(attributes.get("properties", "").split())
        media_type = attributes.get("media-type", "").lower()
        item = ManifestItem(id_, attributes.get("href", ""), media_type, properties)
        self.package.items.setdefault(id_, item)

    def _metadata(self, name: str, text: str) -> None:
        package, attributes = self.package, self._attributes
        if name == "title":
            package.title = package.title or text
        elif name == "language":
            package.language = package.language or text
        elif name == "creator":
            creator = (attributes.get("id", ""), attributes.get("role", ""), text)
            package.creators.append(creator)
        elif name == "meta" and attributes.get("property") == "role":
            package.roles[attributes.get("refines", "").removeprefix("#")] = text


class ContentsEntry(NamedTuple):
    """A title and where it leads to. depth: 1 at the top. fragment: an element's id, or empty."""

    title: str
    path: str
    fragment: str
    depth: int


def resolve(base: str, href: str) -> tuple[str, str]:
    """A path in the archive and a fragment; `base` is the file that says `href`."""
    path, _, fragment = href.partition("#")
    joined = posixpath.join(posixpath.dirname(base), unquote(path)) if path else base
    return posixpath.normpath(joined), unquote(fragment)


def read_contents(data: bytes, where: str) -> list[ContentsEntry]:
    """Empty if there is no list in it; raises InvalidBook."""
    reader = _ContentsReader(where)
    parse_xml(data, reader, where)
    return reader.entries


class _ContentsReader(Elements):
    def __init__(self, where: str) -> None:
        self.entries: list[ContentsEntry] = []
        self._where = where
        self._depth = 0
        self._listing = False
        self._title: list[str] | None = None
        self._href = ""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        match name:
            case "nav":
                self._listing = "toc" in attributes.get("epub:type", "").split()
            case "ol" if self._listing:
                self._depth += 1
            case "navpoint":
                self._depth += 1
            case "a" if self._listing:
                self._title, self._href = [], attributes.get("href", "")
            case "navlabel" if self._depth:
                self._title = []
            case "content" if self._depth:
                self._add(attributes.get("src", ""))

    def text(self, data: str) -> None:
        if self._title is not None:
            self._title.append(data)

    def end(self, name: str) -> None:
        match name:
            case "nav":
                self._listing = False
            case "ol" if self._listing:
                self._depth -= 1
            case "navpoint":
                self._depth -= 1
            case "a" if self._listing:
                self._add(self._href)

    def _add(self, href: str) -> None:
        title = " ".join("".join(self._title or ()).split())
        self._title = None
        if title and href:
            self.entries.append(ContentsEntry(title, *resolve(self._where, href), self._depth))
