"""One book that this gateway speaks, portion by portion, as slots are given to it, and its end."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import msgspec
import structlog

from gateway.audio import Pcm
from gateway.audio.chaptered import book_encoder
from gateway.audio.encoders.compressed import packed, unpacked
from gateway.books.encoding import BookEncoder, described, headed, is_file, is_raw, raw_result
from gateway.books.hold import BookHold
from gateway.books.job_store import JobStore, made_of
from gateway.books.portions import (
    MOST_REDRAWS,
    PortionSound,
    is_final,
    passes,
    patiently,
    pause_s,
    seed_of,
    spoken,
)
from gateway.books.records import JobResult, PortionMade, PortionText
from gateway.errors import SynthesisFailed
from gateway.requests import GatewayContext
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError, StoreLost

log_ = structlog.get_logger(__name__)


@dataclass(eq=False)
class SpokenPortion:
    """A portion in work. began_s: since when. speaking: it holds slots, or is about to."""

    index: int
    request_id: str
    began_s: float = field(default_factory=time.monotonic)
    task: asyncio.Task[None] | None = None
    speaking: bool = True
    leaving: bool = False

    def leave(self) -> None:
        """Give the slots of both stages back; its portion is spoken again from its beginning."""
        self.leaving = True
        if self.task is not None:
            self.task.cancel()


class BookRun:
    """`run` until it ends; `start` another portion as often as there is a slot."""

    def __init__(
        self,
        context: GatewayContext,
        job_store: JobStore,
        hold: BookHold,
        portions: list[PortionText],
        changed: asyncio.Event,
    ) -> None:
        """`changed`: set when another portion may start."""
        self.working: dict[int, SpokenPortion] = {}
        self._context = context
        self._job_store = job_store
        self._hold = hold
        self.portions = portions
        self._changed = changed
        self._news = asyncio.Event()
        self._rests_until_s = 0.0
        self._over = False
        self._tries: Counter[int] = Counter()
        self._failures: Counter[int] = Counter()
        self._failure: AntiphonError | None = None
        self._waiting = [at for at in range(len(portions)) if at not in hold.record.made]
        heapify(self._waiting)

    @property
    def tenant(self) -> str:
        return self._hold.record.tenant

    @property
    def model(self) -> str:
        return self._hold.record.order.model

    @property
    def age(self) -> float:
        return self._hold.record.created_unix_s

    @property
    def startable(self) -> bool:
        """A portion waits for a slot."""
        waits = bool(self._waiting) and not self._over
        return waits and time.monotonic() >= self._rests_until_s

    def start(self) -> None:
        """Have the next portion spoken."""
        index = heappop(self._waiting)
        request_id = self._hold.record.request_id(index, self._tries[index])
        self._tries[index] += 1
        self.working[index] = portion = SpokenPortion(index, request_id)
        portion.task = asyncio.create_task(self._speak(portion), name=f"portion-{request_id}")
        self._tell_running()

    async def run(self) -> None:
        """Have it spoken, and keep what came of it; raises BookLost."""
        try:
            if len(self.portions) != self._hold.record.portions:
                raise StoreLost("the store has lost the text")
            result = await self._result()
        except AntiphonError as error:
            await self._end(state="failed", code=error.code, message=error.message)
            await self._tidy()
            return
        name, encoded = self._hold.record.result_name, msgspec.msgpack.encode(result)
        await patiently(lambda: self._job_store.parts.put(name, encoded), name)
        await self._end(state="done", size=result.size)
        await self._tidy(*(part.name for part in result.parts))

    async def _result(self) -> JobResult:
        """Raises the AntiphonError that the book fails with."""
        try:
            if is_raw(self._hold.record.order.audio):
                await self._all_made()
                return raw_result(self._hold.record)
            return await self._encoded()
        finally:
            self._over = True  # what is stopped here waits again, and is not to be started again
            await stop(*(one.task for one in self.working.values() if one.task is not None))

    # portions

    async def _speak(self, portion: SpokenPortion) -> None:
        index = portion.index
        try:
            sound = await self._spoken(portion)
            portion.speaking = False
            self._changed.set()
            await self._keep(index, sound)
        except AntiphonError as error:
            self._failed(index, error)
        except Exception as error:
            log_.error("book.fault", job=self._hold.record.book_id, exc_info=error)
            self._failed(index, SynthesisFailed("internal error"))
        finally:
            del self.working[index]
            if index not in self._hold.record.made:
                heappush(self._waiting, index)
            if portion.leaving:
                self._count("gave_way")
            self._tell_running()
            self._changed.set()

    async def _spoken(self, portion: SpokenPortion) -> PortionSound:
        """Drawn anew where the model loses its text, in the same way by whichever gateway."""
        record, index, request_id = self._hold.record, portion.index, portion.request_id
        text = self.portions[index]
        for redraw in range(MOST_REDRAWS + 1):
            seed = seed_of(record.order.seed, index, redraw)
            name = f"{request_id}-{redraw}"
            sound = await spoken(self._context, self.tenant, record.order, text, name, seed)
            if not sound.runaway:
                return sound
        self._hold.change(runaways=self._hold.record.runaways + 1)
        return sound

    async def _keep(self, index: int, sound: PortionSound) -> None:
        record = self._hold.record
        name = record.portion_name(index, record.epoch)
        data = await asyncio.to_thread(packed, sound.pcm, record.order.sample_rate)
        await patiently(lambda: self._job_store.parts.put(name, data), name)
        made = PortionMade(len(sound.pcm), record.epoch)
        self._hold.made(index, made, len(self.portions[index].text))
        self._count("made")
        seconds = len(sound.pcm) / record.order.sample_rate
        listener = self._context.services.metrics.listener(self.model, self.tenant)
        self._context.services.metrics.book_audio.labels(*listener).inc(seconds)
        characters = len(self.portions[index].text)
        self._context.services.metrics.characters.labels(*listener).inc(characters)
        self._context.services.usage.count(
            self.tenant, self.model, characters=characters, seconds=seconds
        )
        self._news.set()

    def _failed(self, index: int, error: AntiphonError) -> None:
        log_.info(
            "book.portion_failed",
            job=self._hold.record.book_id,
            portion=index,
            code=error.code,
            error=error.message,
        )
        self._count("failed")
        self._rests_until_s = time.monotonic() + pause_s(error)
        self._failures[index] += not passes(error)
        if is_final(error, self._failures[index]):
            self._failure = error
            self._news.set()

    def _count(self, outcome: str) -> None:
        self._context.services.metrics.book_portions.labels(outcome, self.model).inc()

    def _tell_running(self) -> None:
        self._hold.change(running=tuple(one.request_id for one in self.working.values()))

    # sound

    async def _encoded(self) -> JobResult:
        """While it is spoken; or then, with chapters, which stand in front of the sound."""
        wanted, file = headed(self._hold.record, self.portions), is_file(self._hold.record)
        if wanted or file:
            await self._all_made()
        record = self._hold.record
        parts = self._job_store.parts
        if file:
            encoder = BookEncoder(parts, record, self._sound, self._stored)
            return await encoder.run_file(described(record, self.portions))
        head = None
        if wanted:
            said = described(record, self.portions)
            head = book_encoder(wanted, record.order.sample_rate, said)
        return await BookEncoder(parts, record, self._sound, self._stored, head).run()

    async def _all_made(self) -> None:
        while len(self._hold.record.made) < len(self.portions):
            await self._more()

    async def _sound(self, index: int) -> Pcm:
        """A portion's, as soon as it is there; spoken again where the store has lost it."""
        while True:
            record = self._hold.record
            if (made := record.made.get(index)) is None:
                await self._more()
                continue
            name = record.portion_name(index, made.epoch)
            data = await patiently(lambda name=name: self._job_store.parts.get(name), name)  # type: ignore[misc]
            if data is not None:
                return await asyncio.to_thread(unpacked, data)
            log_.warning("book.portion_lost", job=record.book_id, portion=index)
            self._hold.unmade(index, len(self.portions[index].text))
            heappush(self._waiting, index)
            self._changed.set()

    async def _more(self) -> None:
        """Wait for another portion; raises what the book fails with."""
        if self._failure is not None:
            raise self._failure
        self._news.clear()
        await self._news.wait()
        if self._failure is not None:
            raise self._failure

    def _stored(self, parts: int) -> None:
        self._hold.change(encoded=parts)

    # its end

    async def _end(self, **changes: object) -> None:
        hold, now = self._hold, time.time()
        until_s = now + self._context.settings.keep_jobs_s
        hold.change(**changes, running=(), owner="", ended_unix_s=now, expires_unix_s=until_s)
        await hold.write()
        record, metrics = hold.record, self._context.services.metrics
        metrics.books.labels(record.state, metrics.listener(self.model, self.tenant)[1]).inc()
        log_.info(
            "book.ended",
            job=record.book_id,
            state=record.state,
            code=record.code,
            characters=record.characters,
            audio_s=round(record.samples / record.order.sample_rate, 1),
            took_s=round(now - record.started_unix_s, 1),
            epoch=record.epoch,
        )

    async def _tidy(self, *kept: str) -> None:
        """Until this is done the record names what is left, and goes with all of it when it
        expires.
        """
        record = self._hold.record
        left = [name for name in (record.text_name, *made_of(record)) if name not in kept]
        await self._job_store.clear(left)
        self._hold.change(made={}, encoded=0)
        await self._hold.write()
