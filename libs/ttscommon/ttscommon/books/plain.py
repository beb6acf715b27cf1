"""Plain text: paragraphs between empty lines, chapters by what their headings look like."""

from __future__ import annotations

import codecs
import re
from typing import Final

from ttscommon.books.book import InvalidBook, Outline

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
