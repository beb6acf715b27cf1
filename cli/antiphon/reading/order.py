"""An order for `antiphon read`: a book, its file, and the voices between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from antiphon.client import SpeechOptions
from antiphon.stack import StackConfig
from gateway.audio.chaptered import BookFormat
from ttscommon.books import Book, BookPauses, Cast, Cover, InvalidBook, kind_of, read_book


@dataclass(frozen=True)
class Labels:
    """In place of what the book says of itself; None leaves that as it is."""

    title: str | None = None
    author: str | None = None
    cover: Path | None = None

    def on(self, book: Book) -> Book:
        """Raises InvalidBook, OSError."""
        given = {name: value for name in ("title", "author") if (value := getattr(self, name))}
        cover = _cover(self.cover) if self.cover else book.cover
        return replace(book, cover=cover, **given)


@dataclass(frozen=True)
class Order:
    """`options` are those of the narrator. url: of a running server; without one, `own` is run
    for as long as it takes.
    """

    source: Path
    output: Path
    format: BookFormat
    options: SpeechOptions
    cast: Cast
    pauses: BookPauses
    labels: Labels
    own: StackConfig | None
    url: str | None = None
    key: str | None = None
    most: int = 16
    srt: Path | None = None
    vtt: Path | None = None
    keep: bool = False
    restart: bool = False

    @property
    def folder(self) -> Path:
        """Where spoken portions lie until the file is made."""
        return self.output.with_name(f"{self.output.name}.work")

    def book(self, speakers: frozenset[str] = frozenset()) -> Book:
        """Raises InvalidBook, OSError. speakers: names that lines may begin with."""
        with self.source.open("rb") as file:
            kind = kind_of(self.source.name)
            book = read_book(file, kind, speakers=speakers, title=self.source.stem)
        return self.labels.on(book)


def _cover(path: Path) -> Cover:
    cover = Cover.of(path.read_bytes())
    if cover is None:
        raise InvalidBook(f"{path} is no cover: give a JPEG or PNG of at most 10 MiB")
    return cover
