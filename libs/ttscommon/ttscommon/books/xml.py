"""XML of books by expat: well-formed or refused, in linear time, without entities of its own.

A document type is allowed, since XHTML and NCX have one; nothing of it is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from html.entities import html5
from typing import Final, Protocol
from xml.parsers import expat

from ttscommon.books.book import InvalidBook

_SEPARATOR: Final = " "
_OPS: Final = "http://www.idpf.org/2007/ops"


class Elements(Protocol):
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
