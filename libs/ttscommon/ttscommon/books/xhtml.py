"""XML of books, well-formed or refused, and a chapter's XHTML as paragraphs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html.entities import html5
from typing import Final
from xml.parsers import expat

from ttscommon.books.book import InvalidBook

_SEPARATOR: Final = " "
_OPS: Final = "http://www.idpf.org/2007/ops"


class Elements:
    """Takes a document as it is read. Names are local and in lower case; of attributes with a
    namespace only EPUB's own keep a prefix (`epub:type`).
    """

    def start(self, name: str, attributes: Mapping[str, str]) -> None: ...
    def end(self, name: str) -> None: ...
    def text(self, data: str) -> None: ...


def parse_xml(data: bytes, elements: Elements, where: str) -> None:
    """Tell `elements` of a document; raises InvalidBook, which names `where`."""

    def start(name: str, attributes: Mapping[str, str]) -> None:
        elements.start(_local(name), {_attribute(key): value for key, value in attributes.items()})

    def entity_declared(name: str, *_: object) -> None:
        raise InvalidBook(f"{where} declares the entity '{name}': replace it by what it stands for")

    def attribute_declared(
        element: str, name: str, kind: str, default: str | None, *_: object
    ) -> None:
        if default is not None:  # every element would get it, however long it is
            raise InvalidBook(f"{where} declares the attribute '{name}' for all of '{element}'")

    def entity(name: str, is_parameter: bool) -> None:
        elements.text("" if is_parameter else html5.get(f"{name};", " "))

    parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
    parser.buffer_text = True
    # Without it `&nbsp;` is an error in a document that names no document type.
    parser.UseForeignDTD(True)
    parser.EntityDeclHandler = entity_declared
    parser.AttlistDeclHandler = attribute_declared
    parser.SkippedEntityHandler = entity
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: elements.end(_local(name))
    parser.CharacterDataHandler = elements.text
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        hint = "epubcheck and Calibre's editor show and mend it"
        raise InvalidBook(f"{where} is not well-formed XML: {error}; {hint}") from error


def _local(name: str) -> str:
    return name.rpartition(_SEPARATOR)[2].lower()


def _attribute(name: str) -> str:
    space, _, local = name.rpartition(_SEPARATOR)
    return f"epub:{local}" if space == _OPS else local


_BLOCKS: Final = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd"),
        *("details", "div", "dl", "dt", "figcaption", "figure", "footer", "form", "h1", "h2"),
        *("h3", "h4", "h5", "h6", "header", "hr", "li", "main", "ol", "p", "pre", "section"),
        *("summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"),
    }
)
_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_UNREAD: Final = frozenset(
    {
        *("audio", "canvas", "head", "iframe", "math", "nav", "noscript", "object", "rp", "rt"),
        *("script", "style", "svg", "template", "video"),
    }
)
# EPUB Structural Semantics 1.1, and DPUB-ARIA 1.1 behind `doc-`.
_ROLES: Final = frozenset(
    {
        *("backlink", "endnote", "endnotes", "footnote", "footnotes", "landmarks", "loi"),
        *("lot", "noteref", "page-list", "pagebreak", "pagelist", "rearnote", "rearnotes"),
        "toc",
    }
)
# Of books that are older than these.
_CLASSES: Final = frozenset(
    {
        *("endnote", "endnotes", "fnref", "footnote", "footnote-ref", "footnote-reference"),
        *("footnoteref", "footnotes", "noteref", "page-number", "page_number", "pagenum"),
        *("pagenumber", "pageno", "pgnum"),
    }
)
_MARK: Final = re.compile(r"\s*[\[(]?(?:\d{1,4}|[a-z]|[*†‡§¶]{1,3})[\])]?\s*")
_SPACE: Final = re.compile(r"\s+")
# Soft hyphens and marks without width: they are no part of a word.
_INVISIBLE: Final = re.compile("[\u00ad\u200b\u200c\u2060\ufeff]")


@dataclass(frozen=True)
class Paragraph:
    """Its lines, one behind the other. level: 1 to 6 of a heading, 0 of anything else."""

    text: str
    level: int = 0


@dataclass(frozen=True)
class Section:
    """anchors: by the id of an element, the paragraph that it is in, or that follows it."""

    paragraphs: list[Paragraph]
    anchors: Mapping[str, int]


def read_xhtml(data: bytes, where: str) -> Section:
    """Raises InvalidBook."""
    found = _Paragraphs()
    parse_xml(data, found, where)
    return Section(found.paragraphs, found.anchors)


def plain(text: str) -> str:
    """Lines without space around them, and without characters that are not seen."""
    lines = (_SPACE.sub(" ", line).strip() for line in _INVISIBLE.sub("", text).split("\n"))
    return "\n".join(lines).strip("\n")


class _Paragraphs(Elements):
    def __init__(self) -> None:
        self.paragraphs: list[Paragraph] = []
        self.anchors: dict[str, int] = {}
        self._parts: list[str] = []
        self._level = 0
        self._unread = 0
        self._links = 0
        self._raised: int | None = None
        self._raised_links = False

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in _BLOCKS and not self._unread:
            self._end_paragraph()
        if anchor := attributes.get("id"):
            self.anchors.setdefault(anchor, len(self.paragraphs))
        if self._unread or _is_unread(name, attributes):
            self._unread += 1
            return
        self._level = _HEADINGS.get(name, self._level)
        if name == "br":
            self._parts.append("\n")
        elif name == "a":
            self._links += 1
            self._raised_links = True
        elif name == "sup":
            self._raised, self._raised_links = len(self._parts), self._links > 0

    def end(self, name: str) -> None:
        if self._unread:
            self._unread -= 1
        elif name == "a":
            self._links -= 1
        elif name == "sup":
            self._drop_mark()
        elif name in _BLOCKS:
            self._end_paragraph()
            self._level = 0

    def text(self, data: str) -> None:
        if not self._unread:
            self._parts.append(_SPACE.sub(" ", data))

    def _drop_mark(self) -> None:
        """A raised number that links is a note's."""
        if self._raised is not None and self._raised_links:
            raised = "".join(self._parts[self._raised :])
            if _MARK.fullmatch(raised):
                del self._parts[self._raised :]
        self._raised = None

    def _end_paragraph(self) -> None:
        if text := plain("".join(self._parts)):
            self.paragraphs.append(Paragraph(text, self._level))
        self._parts.clear()
        self._raised = None


def _is_unread(name: str, attributes: Mapping[str, str]) -> bool:
    roles = attributes.get("epub:type", "").split()
    roles += [role.removeprefix("doc-") for role in attributes.get("role", "").split()]
    classes = attributes.get("class", "").lower().split()
    return (
        name in _UNREAD
        or "hidden" in attributes
        or not _ROLES.isdisjoint(roles)
        or not _CLASSES.isdisjoint(classes)
    )
