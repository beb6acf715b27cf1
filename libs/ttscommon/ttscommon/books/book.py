"""A book as it is spoken: chapters of passages, each of one speaker, as requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from ttscommon.wire.errors import BadRequest

# Chapters are numbered by three digits in Vorbis comments.
MOST_CHAPTERS: Final = 999
# Three times the Bible.
MOST_CHARACTERS: Final = 15_000_000
MOST_COVER_BYTES: Final = 10 << 20
_LONGEST_TITLE: Final = 500

_IMAGES: Final = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}


def one_line(name: str) -> str:
    """A title or a name as lists and tags show it."""
    printable = (c if c.isprintable() else " " for c in name[: 2 * _LONGEST_TITLE])
    return " ".join("".join(printable).split())[:_LONGEST_TITLE]


class InvalidBook(BadRequest):
    """A book that cannot be read; the message says what is wrong with it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, param="book")


@dataclass(frozen=True)
class BookPassage:
    """A paragraph, or what one speaker says of it. speaker: None is the narrator."""

    text: str
    speaker: str | None = None


@dataclass(frozen=True)
class Chapter:
    """A title for lists of chapters, and all that is said, headings among it; never empty."""

    title: str
    passages: tuple[BookPassage, ...]


@dataclass(frozen=True)
class Cover:
    """An image as it lies in the book. media_type: image/jpeg or image/png."""

    data: bytes
    media_type: str

    @classmethod
    def of(cls, data: bytes) -> Cover | None:
        """None for a format that audio files cannot hold, and for an image that is too large."""
        kinds = (kind for head, kind in _IMAGES.items() if data.startswith(head))
        kind = next(kinds, None)
        return cls(data, kind) if kind and len(data) <= MOST_COVER_BYTES else None


@dataclass(frozen=True)
class Book:
    """`author` and `language` (a BCP 47 tag) are empty where the book does not say them."""

    title: str
    author: str
    language: str
    cover: Cover | None
    chapters: tuple[Chapter, ...]

    @property
    def characters(self) -> int:
        return sum(len(one.text) for chapter in self.chapters for one in chapter.passages)

    @property
    def speakers(self) -> list[str]:
        """Those who are named, in the order of their first words."""
        said = (one.speaker for chapter in self.chapters for one in chapter.passages)
        return list(dict.fromkeys(name for name in said if name is not None))


@dataclass
class Outline:
    """A book before speakers are told apart; each text is a paragraph, with its lines."""

    title: str = ""
    author: str = ""
    language: str = ""
    cover: Cover | None = None
    chapters: list[tuple[str, list[str]]] = field(default_factory=list)

    def begin(self, title: str) -> None:
        self.chapters.append((title, []))

    def add(self, text: str) -> None:
        """A paragraph, of a chapter without a title if none was begun."""
        if not self.chapters:
            self.begin("")
        self.chapters[-1][1].append(text)


# The name in a cast for all that no named speaker says.
NARRATOR: Final = "narrator"
# The voices of a model are speakers too, by id and by name: one of Piper's has 904.
MOST_SPEAKERS: Final = 10_000
_LONGEST_NAME: Final = 64


@dataclass(frozen=True)
class Cast:
    """Voices by the names of speakers, which are the same in any case."""

    voices: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.voices) > MOST_SPEAKERS:
            raise InvalidBook(f"a cast has at most {MOST_SPEAKERS} speakers")

    @cached_property
    def _folded(self) -> Mapping[str, str]:
        return {name.casefold(): voice for name, voice in self.voices.items()}

    def voice(self, speaker: str | None) -> str | None:
        """The narrator's where the cast does not name the speaker; None where it has neither."""
        narrator = self._folded.get(NARRATOR)
        return narrator if speaker is None else self._folded.get(speaker.casefold(), narrator)


def parse_cast(text: str) -> Cast:
    """`Name = voice`, a line each; what follows a # is a comment. Raises InvalidBook."""
    voices: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        name, equals, voice = (part.strip() for part in line.partition("="))
        if not (name and equals and voice) or ":" in name or len(name) > _LONGEST_NAME:
            raise InvalidBook(f"line {number} of the cast is not `Name = voice`: {line[:80]}")
        voices[name] = voice
    return Cast(voices)


class Speakers:
    """Finds who says what. Only names that are known count: any sentence may hold a colon."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.casefold(): name for name in names if len(name) <= _LONGEST_NAME}

    def passages(self, paragraph: str) -> Iterator[BookPassage]:
        """A paragraph is the narrator's up to a line that begins with a name."""
        speaker: str | None = None
        said: list[str] = []
        for line in paragraph.split("\n"):
            name, rest = self._split(line)
            if name is not None:
                yield from _passage(said, speaker)
                speaker, said = name, []
            said.append(rest)
        yield from _passage(said, speaker)

    def _split(self, line: str) -> tuple[str | None, str]:
        said, colon, rest = line.partition(":")
        if not colon or (rest and not rest[0].isspace()):
            return None, line
        name = self._names.get(said.strip().casefold())
        return (None, line) if name is None else (name, rest.lstrip())


def _passage(lines: Iterable[str], speaker: str | None) -> Iterator[BookPassage]:
    """None of what nothing can be said of: rules, ornaments, space."""
    text = " ".join(" ".join(lines).split())
    if any(character.isalnum() for character in text):
        yield BookPassage(text, speaker)


# About a minute and a half of sound: what a process that dies costs at most.
MOST_PORTION_CHARS: Final = 1500
_SENTENCE: Final = re.compile(r".+?(?:[.!?…。！？][\"'”’»)\]}*_`]*(?:\s+|$)|$)", re.DOTALL)


@dataclass(frozen=True)
class BookPauses:
    """Seconds of silence behind a paragraph and behind a chapter, besides what the voice leaves."""

    paragraph_s: float = 0.5
    chapter_s: float = 2.0

    def __post_init__(self) -> None:
        if not (0 <= self.paragraph_s <= 60 and 0 <= self.chapter_s <= 60):
            raise ValueError("a pause has 0 to 60 seconds")


@dataclass(frozen=True)
class Portion:
    """A request of a book. chapter: from 0. pause_s: silence behind it; 0 behind the last one."""

    chapter: int
    text: str
    speaker: str | None
    pause_s: float


def portions(book: Book, pauses: BookPauses = BookPauses()) -> Iterator[Portion]:
    """A paragraph each, and several of a long one, between which there is no silence."""
    last = len(book.chapters) - 1
    for number, chapter in enumerate(book.chapters):
        for place, passage in enumerate(chapter.passages, 1):
            ends = place == len(chapter.passages)
            pause_s = pauses.chapter_s if ends else pauses.paragraph_s
            if ends and number == last:
                pause_s = 0.0
            *texts, text = cut(passage.text)
            yield from (Portion(number, one, passage.speaker, 0.0) for one in texts)
            yield Portion(number, text, passage.speaker, pause_s)


def cut(text: str) -> list[str]:
    """At ends of sentences, as few parts as there may be; a sentence without end at a space."""
    parts: list[str] = [""]
    for found in _SENTENCE.finditer(text):
        for piece in _short(found[0]):
            if len(parts[-1]) + len(piece) > MOST_PORTION_CHARS and parts[-1]:
                parts.append("")
            parts[-1] += piece
    return [part.strip() for part in parts if part.strip()] or [text]


def _short(sentence: str) -> Iterator[str]:
    start = 0
    while len(sentence) - start > MOST_PORTION_CHARS:
        space = sentence.rfind(" ", start + 1, start + MOST_PORTION_CHARS)
        end = space + 1 if space > 0 else start + MOST_PORTION_CHARS
        yield sentence[start:end]
        start = end
    yield sentence[start:]
