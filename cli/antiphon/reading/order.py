"""An order for `antiphon read`, and a book's portions as requests: who says what in which voice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from antiphon import client
from antiphon.client import GatewayError, ServedModel, SpeechOptions, Voice
from antiphon.reading.folder import Wanted
from antiphon.stack import StackConfig
from gateway.audio.chaptered import BookFormat
from ttscommon.books import (
    Book,
    BookPauses,
    Cast,
    Cover,
    InvalidBook,
    Portion,
    kind_of,
    portions,
    read_book,
)


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


# A run that goes on says the rest as the one before it would have.
_SEED = 0


@dataclass(frozen=True)
class Plan:
    """What is spoken: portions in order, and the request for each."""

    book: Book
    model: str
    portions: Sequence[tuple[Portion, Wanted]]

    @property
    def wanted(self) -> list[Wanted]:
        """Each request once, the first of each voice in front: a voice that the server does not
        know is found out at once.
        """
        unique = list(dict.fromkeys(one for _, one in self.portions))
        first = {one.options.voice: one for one in reversed(unique)}
        return list(dict.fromkeys([*first.values(), *unique]))


async def plan(order: Order, url: str) -> Plan:
    """Ask a server for its voices and cast them; raises GatewayError, InvalidBook."""
    model = _chosen(await client.models(url, order.key), order.options.model)
    voices = await client.voices(url, order.key, model=model.id)
    known = {name: voice.id for voice in voices for name in (voice.name, voice.id)}
    cast = Cast({**known, **order.cast.voices})
    book = order.book(frozenset(cast.voices))
    narrator = order.options.voice or cast.voice(None) or _speaks(voices, book.language)
    options = replace(order.options, model=model.id, voice=narrator)
    if options.seed is None:
        options = replace(options, seed=_SEED)
    said = [(one, _wanted(one, cast, options)) for one in portions(book, order.pauses)]
    return Plan(book, model.id, said)


def _wanted(portion: Portion, cast: Cast, options: SpeechOptions) -> Wanted:
    voice = cast.voice(portion.speaker) if portion.speaker else None
    return Wanted(portion.text, replace(options, voice=voice or options.voice))


def _chosen(models: Sequence[ServedModel], name: str) -> ServedModel:
    found = [one for one in models if name in ("default", one.id)]
    if not found:
        served = ", ".join(one.id for one in models) or "no model"
        raise GatewayError(f"the server has no model '{name}'; it serves {served}")
    return found[0]


def _speaks(voices: Sequence[Voice], language: str) -> str | None:
    """The first voice that speaks a language (`en-GB` as `en` does), or the first one."""
    main = language.lower().partition("-")[0]
    spoken = (
        one.id
        for one in voices
        if main in {tag.lower().partition("-")[0] for tag in (one.language, *one.languages)}
    )
    return next(spoken, None) or next((one.id for one in voices), None)
