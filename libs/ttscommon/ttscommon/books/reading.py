"""A file as a book, whatever of the three kinds it is; plain text and Markdown are read here."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import BinaryIO, Final, Literal, TypeAlias, get_args

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ttscommon.books.book import (
    MOST_CHAPTERS,
    MOST_CHARACTERS,
    Book,
    Chapter,
    InvalidBook,
    Outline,
    Speakers,
    one_line,
)
from ttscommon.books.epub import read_epub
from ttscommon.books.xhtml import Paragraph, plain

MOST_BYTES: Final = 64 << 20
_MARKS: Final = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_EMPTY: Final = re.compile(r"\n[ \t\f\v\r]*\n\s*")
_LONGEST_HEADING: Final = 120
_NUMBER: Final = (
    r"(?:\d{1,4}|[IVXLC]+|[ivxlc]+|(?:twen|thir|for|fif|six|seven|eigh|nine)ty(?:-\w+)?"
    r"|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen"
    r"|the (?:first|second|third|\w+th))"
)
_HEADING: Final = re.compile(
    rf"(?:chapter|part|book|act|scene|canto|letter|kapitel|teil|chapitre|cap[ií]tulo|capitolo"
    rf"|hoofdstuk|rozdział|глава)\s+{_NUMBER}\b.*"
    r"|(?:prologue|epilogue|foreword|preface|introduction|afterword|prolog|epilog)[.:]?",
    re.IGNORECASE | re.DOTALL,
)


def decoded(data: bytes) -> str:
    """UTF-8, or UTF-16 with its mark; raises InvalidBook."""
    if len(data) > MOST_BYTES:
        raise InvalidBook(f"the text is over {MOST_BYTES >> 20} MiB")
    encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "utf-8-sig")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        hint = "convert it, for example with `iconv -f latin1 -t utf-8`"
        raise InvalidBook(f"the text is not UTF-8 at byte {error.start}: {hint}") from error
    if "\0" in text:
        raise InvalidBook("the file is no text; books are .txt, .md or .epub")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_text(data: bytes) -> Outline:
    """Raises InvalidBook."""
    outline = Outline()
    for paragraph in _EMPTY.split(decoded(data).strip()):
        if _is_heading(paragraph):
            outline.begin(" ".join(paragraph.split()))
        outline.add(paragraph)
    return outline


def _is_heading(paragraph: str) -> bool:
    """At most two lines, so that a list of contents in one block is none."""
    short = len(paragraph) <= _LONGEST_HEADING and paragraph.count("\n") <= 1
    return short and _HEADING.fullmatch(paragraph.strip()) is not None


_FRONT: Final = re.compile(r"---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_NOTE: Final = re.compile(r"^\[\^[^\[\]\n]+\]:.*(?:\n(?:[ ]{2,}|\t).*)*\n?", re.MULTILINE)
_NOTE_MARK: Final = re.compile(r"\[\^[^\[\]\n]+\]")
_BREAKS: Final = ("softbreak", "hardbreak")
_SAID: Final = ("text", "code_inline")


def read_markdown(data: bytes) -> Outline:
    """Raises InvalidBook."""
    text = decoded(data)
    front = _FRONT.match(text)
    outline = _described(front[1]) if front else Outline()
    text = text[front.end() :] if front else text
    text = _NOTE_MARK.sub("", _NOTE.sub("", text))
    paragraphs = list(_paragraphs(MarkdownIt("commonmark").enable("table").parse(text)))
    title, levels = _division(paragraphs)
    outline.title = outline.title or title
    for paragraph in paragraphs:
        if paragraph.level in levels:
            outline.begin(" ".join(paragraph.text.split()))
        outline.add(paragraph.text)
    return outline


def _described(front: str) -> Outline:
    """Title, author and language of the lines in front, as Pandoc and Jekyll write them."""
    pairs = (line.partition(":") for line in front.splitlines() if line[:1].isalpha())
    said = {key.strip().lower(): value.strip().strip("\"'") for key, _, value in pairs}
    language = said.get("lang") or said.get("language", "")
    return Outline(said.get("title", ""), said.get("author", ""), language)


def _paragraphs(tokens: list[Token]) -> Iterator[Paragraph]:
    level = 0
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1:])
        elif token.type == "heading_close":
            level = 0
        elif token.type == "inline" and (text := plain(_said(token.children or []))):
            yield Paragraph(text, level)


def _said(tokens: list[Token]) -> str:
    return "".join(
        "\n" if token.type in _BREAKS else token.content if token.type in _SAID else ""
        for token in tokens
    )


def _division(paragraphs: list[Paragraph]) -> tuple[str, set[int]]:
    """The title, if a single heading stands above all, and the levels of headings of chapters."""
    counts = Counter(paragraph.level for paragraph in paragraphs if paragraph.level)
    top, *below = sorted(counts) or [0]
    if counts[top] != 1:
        return "", {top} - {0}
    title = next(one.text for one in paragraphs if one.level == top)
    return " ".join(title.split()), {top, *below[:1]}


BookKind: TypeAlias = Literal["text", "markdown", "epub"]
KINDS: Final[tuple[BookKind, ...]] = get_args(BookKind)

_LONGEST_LANGUAGE: Final = 35
_SUFFIXES: Final[dict[str, BookKind]] = {
    ".txt": "text",
    ".text": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".epub": "epub",
}


def kind_of(name: str) -> BookKind:
    """By the name's ending; raises InvalidBook."""
    suffix = PurePath(name).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InvalidBook(f"{name} is no book that is read here: {', '.join(_SUFFIXES)}")
    return _SUFFIXES[suffix]


def read_book(
    file: BinaryIO, kind: BookKind, *, speakers: Iterable[str] = (), title: str = ""
) -> Book:
    """Read a file that can be sought in; raises InvalidBook.

    speakers: names that count at the beginning of a line as who says it, in any case; of a cast,
    or of voices. title: for a book that says none.
    """
    match kind:
        case "epub":
            outline = read_epub(file)
        case "markdown":
            outline = read_markdown(file.read(MOST_BYTES + 1))
        case "text":
            outline = read_text(file.read(MOST_BYTES + 1))
    return _book(outline, Speakers(speakers), title)


def _book(outline: Outline, speakers: Speakers, title: str) -> Book:
    title = one_line(outline.title) or one_line(title) or "Untitled"
    said = [
        (one_line(name), tuple(passage for text in texts for passage in speakers.passages(text)))
        for name, texts in outline.chapters
    ]
    chapters = tuple(
        Chapter(name or (title if number == 1 else str(number)), passages)
        for number, (name, passages) in enumerate(filter(lambda one: one[1], said), 1)
    )
    author, language = one_line(outline.author), one_line(outline.language)[:_LONGEST_LANGUAGE]
    return _bounded(Book(title, author, language, outline.cover, chapters))


def _bounded(book: Book) -> Book:
    if not book.chapters:
        raise InvalidBook("there is no text in the book")
    count = len(book.chapters)
    if count > MOST_CHAPTERS:
        raise InvalidBook(f"the book has {count} chapters; {MOST_CHAPTERS} are the most")
    if book.characters > MOST_CHARACTERS:
        raise InvalidBook(f"the book has over {MOST_CHARACTERS:,} characters: read it in parts")
    return book
