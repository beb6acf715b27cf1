"""The chapters of a job's result: where they begin is known when all of it is spoken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from gateway.audio.chaptered import BookMetadata, ChapterTime
from gateway.books.records import BookRecord, PortionText

# Formats whose chapters stand in front of the sound.
_HEADED: Final[dict[str, Literal["opus", "mp3"]]] = {"opus": "opus", "mp3": "mp3"}
_MOST: Final = 999


def is_file(record: BookRecord) -> bool:
    """Whether the result is a file that is only whole when it is closed."""
    return record.order.audio.container == "mp4"


def headed(record: BookRecord, portions: Sequence[PortionText]) -> Literal["opus", "mp3"] | None:
    """The format, where its result has chapters; None where it has none, or they have no titles."""
    titled = sum(bool(one.heading) for one in portions)
    return _HEADED.get(record.order.audio.codec) if 0 < titled <= _MOST else None


def described(record: BookRecord, portions: Sequence[PortionText]) -> BookMetadata:
    """What is known of a book, all of which is spoken."""
    order, chapters = record.order, tuple(_chapters(record, portions))
    return BookMetadata(
        *(order.title, order.author, order.language),
        chapters=chapters,
        provenance=order.provenance,
    )


def _chapters(record: BookRecord, portions: Sequence[PortionText]) -> Iterator[ChapterTime]:
    """Each from its first sample to the next one's; what comes before the first is in none."""
    starts: list[tuple[str, int]] = []
    at = 0
    for index, portion in enumerate(portions):
        if portion.heading:
            starts.append((portion.heading, at))
        at += record.made[index].samples
    rate = record.order.sample_rate
    ends = [start for _, start in starts[1:]] + [at]
    for (title, start), end in zip(starts, ends, strict=True):
        yield ChapterTime(title, start / rate, end / rate)


__all__ = ["described", "headed", "is_file"]
