"""The order of a book's sound: where each portion begins, and the silence behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from antiphon.client import Word
from antiphon.reading.folder import SpokenPortion
from gateway.audio import Pcm, Provenance
from gateway.audio.chaptered import ChapterTime
from ttscommon.books import Book, Portion

_BLOCK: Final = 1 << 16


class MixedRates(Exception):
    """The portions of a folder are of different sample rates."""


@dataclass(frozen=True)
class Track:
    """A portion in its place: `start` and the `pause` behind it in samples."""

    chapter: int
    spoken: SpokenPortion
    start: int
    pause: int

    @property
    def end(self) -> int:
        return self.start + self.spoken.samples + self.pause

    def blocks(self) -> Iterator[Pcm]:
        """Its samples, and zeros."""
        yield from self.spoken.blocks()
        for at in range(0, self.pause, _BLOCK):
            yield np.zeros(min(_BLOCK, self.pause - at), np.int16)


@dataclass(frozen=True)
class Layout:
    """All tracks of a book, one behind the other."""

    tracks: Sequence[Track]
    sample_rate: int

    @property
    def samples(self) -> int:
        return self.tracks[-1].end

    @property
    def duration_s(self) -> float:
        return self.samples / self.sample_rate

    @property
    def origin(self) -> Provenance | None:
        """What servers said of it; of several the models of all and the first that gave a name."""
        said = [track.spoken.origin for track in self.tracks if track.spoken.origin]
        models = ", ".join(dict.fromkeys(one.model for one in said))
        by = next((one.by for one in said if one.by), "")
        return Provenance(models, by) if said else None

    def chapters(self, book: Book) -> Iterator[ChapterTime]:
        """From the first word of each to the first of the next."""
        starts = {track.chapter: track.start for track in reversed(self.tracks)}
        ends = [*(starts[number] for number in range(1, len(book.chapters))), self.samples]
        for number, (chapter, end) in enumerate(zip(book.chapters, ends, strict=True)):
            start_s, end_s = starts[number] / self.sample_rate, end / self.sample_rate
            yield ChapterTime(chapter.title, start_s, end_s)

    def words(self) -> Iterator[list[Word]]:
        """Of each track, timed from the book's first sample."""
        for track in self.tracks:
            start_s = track.start / self.sample_rate
            yield [word.later(start_s) for word in track.spoken.words()]


def lay_out(portions: Sequence[tuple[Portion, SpokenPortion]]) -> Layout:
    """Raises MixedRates."""
    rates = {spoken.sample_rate for _, spoken in portions if spoken.sample_rate}
    if len(rates) != 1:
        found = ", ".join(f"{rate} Hz" for rate in sorted(rates))
        raise MixedRates(f"the book was spoken at {found or 'no rate'}: begin anew with --restart")
    [rate] = rates
    tracks, at = [], 0
    for portion, spoken in portions:
        track = Track(portion.chapter, spoken, at, round(portion.pause_s * rate))
        tracks.append(track)
        at = track.end
    return Layout(tracks, rate)
