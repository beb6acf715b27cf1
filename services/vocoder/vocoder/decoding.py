"""One pass through a request's codes: from where a listener stands until it wants another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ttscommon.bus import AudioWriter, Bus, LogReader
from ttscommon.cluster.worker import Job
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.engine.stage_job import StageJob
from ttscommon.wire import subjects
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import (
    AudioChunk,
    Checkpoint,
    Chunk,
    CodecChunk,
    End,
    Position,
    SaidText,
    Spent,
    Tensor,
    WordTime,
)
from vocoder.engine.interface import SoundEngine
from vocoder.engine.stream import DecodedAudio, Event, Resume, first_frame

# How long a stream keeps its slot that gets on no further because its listener takes nothing more,
# or its text has not come. Such a listener has all of its credit in hand, and what it takes next is
# half of it.
PARK_S: Final = 0.5


@dataclass(frozen=True)
class Codes:
    """Reads the codes of a job, which rests meanwhile. None comes for `timeout_s`: none will."""

    bus: Bus
    job: Job
    timeout_s: float

    def read(self, frame: int = 0) -> LogReader:
        """From a frame on; use as an async context manager."""
        return self.bus.reader(subjects.CODES, self.job.request_id, frame)

    async def next(self, codes: LogReader, timeout_s: float | None = None) -> Chunk | End | None:
        """None if nothing comes in time."""
        if (record := codes.at_hand()) is not None:
            return record
        try:
            async with asyncio.timeout(timeout_s or self.timeout_s):
                return await self.job.resting(anext(codes))
        except TimeoutError:
            return None


class Unwanted:
    """No listener takes more."""


@dataclass(frozen=True)
class Late:
    """All codes before `frame` have been decoded, and more come with more text."""

    frame: int


Outcome = End | Position | Late | Unwanted
"""The End to write, or where a listener wants to go on, or what a job waits for without a slot."""


class Decoding:
    """Feeds the engine codes, and writes their sound. Leaves no slot behind, whatever happens.

    `conditions`: what the codec is told beside frames.
    """

    def __init__(
        self,
        stage: StageJob[Event],
        engine: SoundEngine,
        job: Job,
        writer: AudioWriter,
        codes: Codes,
        conditions: Arrays | None = None,
    ) -> None:
        self._stage = stage
        self._engine = engine
        self._job = job
        self._writer = writer
        self._codes = codes
        self._conditions = conditions
        self._words, self._said = Words(), Transcript()
        self._spent: tuple[Spent, ...] = ()
        self._first_codes_s = 0.0
        self._codes_end: End | None = None
        self._fed = 0  # the first frame that the engine lacks
        self._inside = False  # the segment of the last frame fed goes on

    async def run(self, start: Position, prefix: Arrays | None) -> Outcome:
        """Decode from `start` on, until the request is cancelled, decoded or failed, or wanted from
        another sample or not at all, or codes are late.
        """
        begun = await self._writer.begin(start)
        self._words, self._said = Words(begun.last_word), Transcript(begun.said)
        self._codes_end = None
        try:
            with self._stage.listening() as events:
                resume = Resume(start.start, begun.frame, begun.mark, begun.lead)
                self._engine.open(self._job.request, resume, prefix, self._conditions)
                # What is made again is new to the listener, whenever the request began.
                if self._writer.remaking is None:
                    self._stage.tell_playback()
                first = first_frame(self._engine.spec, begun.frame, prefix)
                return await self._outcome(events, first)
        finally:
            await self._stage.free()

    async def _outcome(self, events: asyncio.Queue[Event], begin: int) -> Outcome:
        found: Outcome | None = await self._stage.first(
            self._write(events), self._writer.sought(), self._read(begin)
        )
        if found is None:
            raise AssertionError("audio was written to no end")
        return found

    async def _read(self, begin: int) -> End | Late | Unwanted | None:
        """Feed the engine all codes, as far as the listener takes their sound; None when it has
        them. Returns an End if what waits is not worth decoding.
        """
        fed = self._fed = begin
        self._inside = False
        async with self._codes.read(begin) as codes:
            while True:
                record = await self._next_or_late(codes, fed)
                if isinstance(record, Late):
                    return record
                if record is None:
                    return self._stage.end("error", "internal", "the codes stopped coming")
                if isinstance(record, End):
                    return self._finish(record)
                if not isinstance(record, CodecChunk):
                    message = "a record that holds no codes"
                    return self._stage.end("error", "malformed_message", message)
                if not await self._has_room(record.start):
                    return Unwanted()
                self._feed(record)
                fed = self._fed = record.end

    def _feed(self, chunk: CodecChunk) -> None:
        if chunk.spent:
            self._spent, self._first_codes_s = chunk.spent, time.monotonic()
        self._words.add(chunk.words)
        self._said.add(chunk.said)
        arrays = {name: tensor.array() for name, tensor in chunk.tensors.items()}
        if left := self._engine.spec.left:
            self._inside = bool(arrays[left][-1]) if left in arrays else False
        self._engine.feed(self._job.request_id, arrays)

    def _finish(self, codes_end: End) -> End | None:
        if codes_end.outcome == "cancelled" and self._writer.remaking is None:
            return self._stage.end("cancelled", codes_end.code, codes_end.message)
        self._codes_end = codes_end
        self._engine.finish(self._job.request_id)
        return None

    @property
    def _may_wait(self) -> bool:
        """Whether codes may be late because their text is, and can be waited for without a slot."""
        bounded = self._engine.spec.context_frames is not None
        return bounded and not self._job.request.text_final and self._job.parkable

    async def _next_or_late(self, codes: LogReader, fed: int) -> Chunk | End | Late | None:
        """Late while neither codes come nor the engine has any left; None if none come in time."""
        before = -1
        while self._may_wait and (before < self._writer.position or self._prepares):
            before = self._writer.position
            if (record := await self._codes.next(codes, PARK_S)) is not None:
                return record
        return Late(fed) if self._may_wait else await self._codes.next(codes)

    @property
    def _prepares(self) -> bool:
        """Whether the engine has in hand what it prepares, so that nothing is heard for a while."""
        return not self._inside and self._writer.position < self._engine.spec.sure(self._fed)

    async def _has_room(self, frame: int) -> bool:
        """Wait until the listener takes what comes of the request's `frame`; False if it is better
        done without a slot.

        A codec that would have to decode everything again keeps its slot while there is a listener.
        """
        if self._inside:  # nothing of what was fed is heard without the rest of it
            return True
        position = frame * self._engine.spec.samples_per_frame
        before = self._writer.position
        while not await self._writer.room(position, PARK_S):
            before, moved = self._writer.position, self._writer.position > before
            if moved or self._prepares:  # the engine was not done with what it has
                continue
            if self._engine.spec.context_frames is not None or not await self._writer.is_heard():
                return False
        return True

    async def _write(self, events: asyncio.Queue[Event]) -> End:
        """Put pieces as they come, and return the End that fits how the stream ended.

        What is made again ends where it did.
        """
        before = self._writer.remaking
        while before is None or self._writer.position < before.start:
            match await events.get():
                case DecodedAudio() as piece:
                    chunk = self._chunk(piece)
                    if before is not None and chunk.end > before.start:
                        chunk = chunk.head(before.start)
                    await self._writer.put(chunk)
                case Finished():
                    return self._relayed()
                case Failed(error):
                    return self._stage.failure(error)
        return before

    def _chunk(self, piece: DecodedAudio) -> AudioChunk:
        return AudioChunk(
            self._job.request_id,
            self._writer.position,
            self._engine.spec.sample_rate,
            Tensor.of(piece.pcm),
            self._words.take(),
            self._take_spent(),
            Checkpoint(
                *(piece.frame, piece.mark, self._words.last),
                *(self._said.characters, piece.lead),
            ),
            said=self._said.take(),
        )

    def _take_spent(self) -> tuple[Spent, ...]:
        """What the first sound took until now; nothing for any later chunk."""
        if self._writer.position or not self._spent:
            return ()
        took_s = time.monotonic() - self._first_codes_s
        return (*self._spent, Spent(subjects.VOCODER.name, took_s, took_s))

    def _relayed(self) -> End:
        """The talker's End, at the end of the audio."""
        end = self._codes_end
        if end is None:
            raise AssertionError("the engine finished a stream whose codes had not ended")
        return self._stage.end(end.outcome, end.code, end.message, end.param)


class Words:
    """Word times on their way to the listener: each once, across vocoders."""

    def __init__(self, last: tuple[float, float] = (-1.0, -1.0)) -> None:
        self.last = last
        self._waiting: list[WordTime] = []

    def add(self, words: Sequence[WordTime]) -> None:
        """Take words in order of time; those at or before the `last` one are known already."""
        for word in words:
            if (times := (word.start_s, word.end_s)) > self.last:
                self.last = times
                self._waiting.append(word)

    def take(self) -> tuple[WordTime, ...]:
        """Whatever waits: words may run ahead of their audio, and never behind it."""
        words, self._waiting = tuple(self._waiting), []
        return words


class Transcript:
    """Text that a model says, on its way to the listener: each piece once, across vocoders.

    characters: those before are known to the listener, or wait here.
    """

    def __init__(self, characters: int = 0) -> None:
        self.characters = characters
        self._waiting: list[SaidText] = []

    def add(self, said: Sequence[SaidText]) -> None:
        """Take pieces in their order."""
        for piece in said:
            if piece.end > self.characters:
                self.characters = piece.end
                self._waiting.append(piece)

    def take(self) -> tuple[SaidText, ...]:
        """Whatever waits: text may run ahead of its audio, and never behind it."""
        said, self._waiting = tuple(self._waiting), []
        return said
