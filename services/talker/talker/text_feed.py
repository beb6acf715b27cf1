"""A request's text on its way into the engine, at once or word by word."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import structlog

from talker.engine.interface import SpeechEngine
from ttscommon.bus import Bus, LogReader, LogWriter
from ttscommon.cluster.worker import Job
from ttscommon.engine.stage_job import FREE_TIMEOUT_S
from ttscommon.wire import subjects
from ttscommon.wire.errors import InputLost
from ttscommon.wire.messages import End, LogRecord, RowsPiece, TextPiece
from ttscommon.wire.pieces import Piece, unmarked
from ttsfamilies.base.talker.base import Prepared

# A listener's text may be long in coming: so long its first sound is waited for, text by text.
_TURN_S: Final = 0.5

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class TextTiming:
    """How a request's text is read.

    timeout_s: text that stays away for so long is taken to be complete, or a gateway that died
    would hold a slot for ever. rest_share: beyond the first utterance, the part of the time that
    reading may take: it competes with the engine for the interpreter, and a minute of speech is
    read in milliseconds. first_s: for the same reason the first chunk is waited for before more is
    read, but no longer than that. room_s: between two attempts to queue the vocoders' job. park_s:
    a stream that has spoken its text and waits for so long keeps no slot.
    """

    timeout_s: float = 120.0
    first_s: float = 0.15
    rest_share: float = 0.1
    room_s: float = 0.2
    park_s: float = 0.5


class ReadingTurns:
    """Turns in which the texts of jobs are read: one at a time, behind listeners' first sounds.

    Reading computes beside the engine, and a job brings as many long texts as there are slots. To
    be made on the event loop.
    """

    def __init__(self, timeout_s: float = _TURN_S) -> None:
        self._timeout_s = timeout_s
        self._starting = 0
        self._calm = asyncio.Event()
        self._calm.set()
        self._one = asyncio.Lock()

    @contextmanager
    def starting(self, *, offline: bool) -> Iterator[None]:
        """A listener, if it has one, waits for its first chunk."""
        if offline:
            yield
            return
        self._starting += 1
        self._calm.clear()
        try:
            yield
        finally:
            self._starting -= 1
            if not self._starting:
                self._calm.set()

    @asynccontextmanager
    async def turn(self, *, offline: bool) -> AsyncIterator[None]:
        """Something of a text may be read: at once, unless no listener waits for it."""
        if not offline:
            yield
            return
        async with self._one:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timeout_s):
                    await self._calm.wait()
            yield


class TextFeed:
    """Feeds the engine's stream of a job, which is open. `begun`: its first chunk is out.

    Reading happens in threads: a long text must not hold up the streams of others, neither in the
    engine nor here.
    """

    def __init__(
        self,
        bus: Bus,
        engine: SpeechEngine,
        job: Job,
        writer: LogWriter,
        timing: TextTiming,
        turns: ReadingTurns,
    ) -> None:
        self.begun = asyncio.Event()
        self._bus = bus
        self._engine = engine
        self._job = job
        self._writer = writer
        self._timing = timing
        self._key = job.request_id
        self._turns = turns

    async def feed(self, prepared: Prepared, units: Iterator[Any], *, spoken: bool) -> None:
        """Pass on what follows the first utterance; `spoken`: there was one."""
        if spoken:
            await self._first_chunk()
        await self._feed_all(units)
        if not self._job.request.text_final:
            await self._feed_late(prepared)
        self._engine.feed(self._key, (), final=True)

    async def _first_chunk(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.first_s):
                await self.begun.wait()

    async def _feed_all(self, units: Iterator[Any]) -> None:
        while True:
            async with self._turns.turn(offline=self._job.request.offline):
                began = time.monotonic()
                unit = await asyncio.to_thread(next_unit, units)
                took_s = time.monotonic() - began
            if not unit:
                return
            self._engine.feed(self._key, unit, final=False)
            await asyncio.sleep(took_s * (1.0 / self._timing.rest_share - 1.0))

    async def _feed_late(self, prepared: Prepared) -> None:
        """Pass text on as it arrives. A text log that ends badly ends the text all the same, and
        so does one whose writer fell silent. Not so rows: what follows them cannot be guessed, and
        the request fails with InputLost.
        """
        async with self._bus.reader(subjects.TEXT, self._key) as reader:
            while isinstance(record := await self._later(reader), TextPiece | RowsPiece):
                await self._feed_all(prepared.read(_pieces(record), final=False))
        if self._job.request.rows:
            _require_ok(record, self._timing.timeout_s)
        nothing: Sequence[Piece] = ()
        await self._feed_all(prepared.read(nothing, final=True))

    async def _later(self, reader: LogReader) -> LogRecord | None:
        """The next record; None if none came for too long. Without any for a while the stream waits
        without a slot, once it has spoken what there is.
        """
        until_s = time.monotonic() + self._timing.timeout_s
        while (left_s := until_s - time.monotonic()) > 0.0:
            with suppress(TimeoutError):
                return await _text(reader, min(self._timing.park_s, left_s))
            if await self._park():
                found = None
                with suppress(TimeoutError):
                    found = await _text(reader, max(0.0, until_s - time.monotonic()))
                await self._unpark()
                return found
        return None

    async def _park(self) -> bool:
        """Free both slots, the engine's first: the next job may come at once."""
        if not self._job.parkable:
            return False
        loop = asyncio.get_running_loop()
        parked: asyncio.Future[bool] = loop.create_future()
        self._engine.park(self._key, lambda was: loop.call_soon_threadsafe(_tell, parked, was))
        if not await asyncio.wait_for(parked, FREE_TIMEOUT_S):
            return False
        if self._job.park():
            log_.info("codes.parked", request_id=self._key, position=self._writer.position)
            return True
        self._engine.unpark(self._key)
        return False

    async def _unpark(self) -> None:
        """Go on behind what was said, with slots again."""
        await self._job.unpark()
        self._engine.unpark(self._key)


def next_unit(units: Iterator[Any]) -> Sequence[Any]:
    """The next unit, alone; nothing at the end."""
    return tuple(islice(units, 1))


async def _text(reader: LogReader, timeout_s: float) -> LogRecord | None:
    """None where the log ends without an End; raises TimeoutError."""
    async with asyncio.timeout(timeout_s):
        return await anext(reader, None)


def _pieces(record: TextPiece | RowsPiece) -> Sequence[Piece]:
    if isinstance(record, RowsPiece):
        return [record.rows]
    return unmarked(record.text, record.marks, record.spans)


def _require_ok(last: LogRecord | None, timeout_s: float) -> None:
    """Raises InputLost unless what produces the rows said that they are complete."""
    if last is None:
        raise InputLost(f"no rows came for {timeout_s:g} s, and they were not complete")
    if not isinstance(last, End) or last.outcome != "ok":
        said = last.message if isinstance(last, End) else ""
        raise InputLost(f"what produces the rows gave up: {said or 'it did not say why'}")


def _tell(parked: asyncio.Future[bool], was: bool) -> None:
    if not parked.done():
        parked.set_result(was)
