"""The folder beside a book's file for its spoken portions, and the order of their sound."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from antiphon.client import SpeechOptions, Word
from gateway.audio import Pcm, Provenance
from gateway.audio.chaptered import ChapterTime
from ttscommon.books import Book, Portion

_VERSION: Final = 1
_LOCK: Final = "lock"
_BLOCK_BYTES: Final = 1 << 18
_BYTES_PER_SAMPLE: Final = 2


class FolderInUse(Exception):
    """Another run speaks into the folder."""


@dataclass(frozen=True)
class Wanted:
    """A request: the same one has the same sound. `options` name a voice and a seed."""

    text: str
    options: SpeechOptions

    @property
    def key(self) -> str:
        """A name for files."""
        said = json.dumps([_VERSION, self.text, asdict(self.options)], sort_keys=True)
        return hashlib.blake2b(said.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class SpokenPortion:
    """A portion that is there. outcome: ok, runaway, or silent if there was nothing to say.

    origin: what the server says of it, if it says that it is synthetic.
    """

    folder: Path
    key: str
    samples: int
    sample_rate: int
    outcome: str
    origin: Provenance | None = None

    def blocks(self) -> Iterator[Pcm]:
        """Its samples, some at a time."""
        if not self.samples:
            return
        with (self.folder / f"{self.key}.pcm").open("rb") as file:
            while data := file.read(_BLOCK_BYTES):
                yield np.frombuffer(data, "<i2")

    def words(self) -> list[Word]:
        """Timed from its first sample; empty where the model times none."""
        return [Word(*word) for word in _stored(self.folder, self.key)["words"]]


@contextmanager
def work_folder(path: Path) -> Iterator[WorkFolder]:
    """Inside, no other run uses the folder; raises FolderInUse, OSError."""
    path.mkdir(parents=True, exist_ok=True)
    with (path / _LOCK).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FolderInUse(f"another run speaks into {path}") from error
        yield WorkFolder(path)


class WorkFolder:
    """Portions by their requests."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def find(self, wanted: Wanted) -> SpokenPortion | None:
        """What an earlier run has finished."""
        key = wanted.key
        try:
            told = _stored(self.path, key)
            origin = Provenance(*told["origin"]) if told["origin"] else None
            found = SpokenPortion(
                self.path, key, told["samples"], told["sample_rate"], told["outcome"], origin
            )
            size = (self.path / f"{key}.pcm").stat().st_size
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if size == found.samples * _BYTES_PER_SAMPLE else None

    @contextmanager
    def begin(self, wanted: Wanted) -> Iterator[PortionWriter]:
        """Samples as they come: they count from `finish` on, and not if it never comes."""
        passing = self.path / f"{wanted.key}.passing"
        try:
            with passing.open("wb") as file:
                yield PortionWriter(self.path, wanted.key, passing, file)
        finally:
            passing.unlink(missing_ok=True)

    def remove(self) -> None:
        """All of it: the file is made."""
        shutil.rmtree(self.path)


class PortionWriter:
    """Writes one portion; see WorkFolder.begin."""

    def __init__(self, folder: Path, key: str, passing: Path, file: BinaryIO) -> None:
        self._folder, self._key = folder, key
        self._passing, self._file = passing, file

    def write(self, pcm: bytes) -> None:
        self._file.write(pcm)

    def finish(
        self, sample_rate: int, words: list[Word], outcome: str, origin: Provenance | None = None
    ) -> SpokenPortion:
        """The samples lie under their name before it is told that they are there."""
        samples = self._file.tell() // _BYTES_PER_SAMPLE
        self._file.close()
        self._passing.replace(self._folder / f"{self._key}.pcm")
        timed = [(word.text, word.start_s, word.end_s) for word in words]
        told = {
            "samples": samples,
            "sample_rate": sample_rate,
            "outcome": outcome,
            "origin": (origin.model, origin.by) if origin else None,
            "words": timed,
        }
        self._passing.write_text(json.dumps(told), "utf-8")
        self._passing.replace(self._folder / f"{self._key}.json")
        return SpokenPortion(self._folder, self._key, samples, sample_rate, outcome, origin)


def _stored(folder: Path, key: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{key}.json").read_text("utf-8"))
    return found


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
