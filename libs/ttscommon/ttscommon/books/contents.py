"""Lists of contents: the navigation document of EPUB 3 and the NCX of EPUB 2."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from ttscommon.books.xml import parse_xml


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


class _ContentsReader:
    """Gathers the entries of either kind."""

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
