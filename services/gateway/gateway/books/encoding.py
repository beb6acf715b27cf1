"""The sound of a book as its clients download it, made of the portions in their order.

A gateway that takes a book over begins the encoding anew, of the portions that are stored: the same
samples make the same bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from gateway.audio import AudioEncoder, AudioFormat, Pcm, encoder_for, formats, provenance
from gateway.audio.chaptered import BookMetadata, ChapterTime, book_file
from gateway.books.job_store import JobParts
from gateway.books.portions import patiently
from gateway.books.records import BookRecord, JobResult, PortionText, ResultPart

# Formats whose chapters stand in front of the sound.
_HEADED: Final[dict[str, Literal["opus", "mp3"]]] = {"opus": "opus", "mp3": "mp3"}
_MOST: Final = 999
# What is given to an encoder at a time, and what is stored as one part.
_BLOCK_S: Final = 1
_PART_BYTES: Final = 2 << 20
_SAMPLE_BYTES: Final = 2
# The sizes in a WAV's head have 32 bits.
_LONGEST_WAV: Final = (1 << 32) - (1 << 16)

Sound = Callable[[int], Awaitable[Pcm]]


def is_raw(audio: AudioFormat) -> bool:
    """Whether the portions' samples are the result as they are."""
    return audio.codec == "pcm_s16le"


def raw_result(record: BookRecord) -> JobResult:
    """The stored portions one behind the other, with a head in front of a WAV."""
    made = sorted(record.made.items())
    parts = tuple(
        ResultPart(record.portion_name(index, one.epoch), one.samples * _SAMPLE_BYTES)
        for index, one in made
    )
    head = b""
    order = record.order
    if order.audio.container == "wav":
        fits = record.samples * _SAMPLE_BYTES < _LONGEST_WAV
        info = provenance.riff_info(order.provenance)
        head = formats.header(order.sample_rate, record.samples if fits else None, info=info)
    return JobResult(parts, packed=True, head=head)


def _blocks(pcm: Pcm, sample_rate: int) -> Iterator[Pcm]:
    block = _BLOCK_S * sample_rate
    for start in range(0, len(pcm), block):
        yield pcm[start : start + block]


class BookEncoder:
    """Encodes a book while it is spoken. sound: of a portion, as soon as it is made.

    stored: called with how many parts are stored so far. encoder: in place of the format's own.
    """

    def __init__(
        self,
        parts: JobParts,
        record: BookRecord,
        sound: Sound,
        stored: Callable[[int], None],
        encoder: AudioEncoder | None = None,
    ) -> None:
        self._store = parts
        self._record = record
        self._sound = sound
        self._stored = stored
        order = record.order
        self._encoder = encoder or encoder_for(order.audio, order.sample_rate, order.provenance)
        self._waiting = bytearray()
        self._parts: list[ResultPart] = []

    async def run(self) -> JobResult:
        """Raises Unsupported for a format that is not installed here."""
        for index in range(self._record.portions):
            await self._feed(await self._sound(index))
        self._waiting += await asyncio.to_thread(self._encoder.finish)
        await self._put(least=1)
        return JobResult(tuple(self._parts))

    async def _feed(self, pcm: Pcm) -> None:
        for some in _blocks(pcm, self._record.order.sample_rate):
            self._waiting += await asyncio.to_thread(self._encoder.feed, some)
        await self._put(least=_PART_BYTES)

    async def run_file(self, book: BookMetadata) -> JobResult:
        """The same as M4B, by way of a file of this gateway: its index is written last and stands
        in front.
        """
        rate = self._record.order.sample_rate
        with TemporaryDirectory(prefix="book-") as folder:
            path = Path(folder) / "book.m4b"
            file = await asyncio.to_thread(book_file, path, "m4b", rate, book)
            for index in range(self._record.portions):
                for some in _blocks(await self._sound(index), rate):
                    await asyncio.to_thread(file.write, some)
            await asyncio.to_thread(file.close)
            with path.open("rb") as stored:
                while data := await asyncio.to_thread(stored.read, _PART_BYTES):
                    self._waiting += data
                    await self._put(least=_PART_BYTES)
        await self._put(least=1)
        return JobResult(tuple(self._parts))

    async def _put(self, least: int) -> None:
        while len(self._waiting) >= least:
            data = bytes(self._waiting[:_PART_BYTES])
            name = self._record.part_name(len(self._parts), self._record.epoch)
            await patiently(lambda name=name, data=data: self._store.put(name, data), name)  # type: ignore[misc]
            del self._waiting[:_PART_BYTES]
            self._parts.append(ResultPart(name, len(data)))
            self._stored(len(self._parts))


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
