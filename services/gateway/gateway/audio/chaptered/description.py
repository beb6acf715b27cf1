"""The description of a book in its file."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.audio.provenance import Provenance
from ttscommon.books.book import Cover


@dataclass(frozen=True)
class ChapterTime:
    """A chapter from its first sample to the next chapter's, in seconds."""

    title: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class BookMetadata:
    """Empty where it is not known. Chapters are in order, and at most 999.

    provenance: that the voice is synthetic; None where that is not to be said.
    """

    title: str
    author: str = ""
    language: str = ""
    cover: Cover | None = None
    chapters: tuple[ChapterTime, ...] = ()
    provenance: Provenance | None = None
