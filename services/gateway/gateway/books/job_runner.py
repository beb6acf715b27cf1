"""The books that this gateway speaks: taken when no gateway has them, and given slots by shares."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from gateway.books.hold import BookHold, BookLost, HoldTuning, Staleness
from gateway.books.job_store import FoundBook, JobStore, key_of, made_of, unfinished_of
from gateway.books.portions import MOST_REDRAWS, patiently
from gateway.books.records import BookReader, BookRecord
from gateway.books.run import BookRun, SpokenPortion
from gateway.requests import GatewayContext
from ttscommon.process.tasks import Chores, stop
from ttscommon.wire.errors import BusUnavailable

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class JobRunnerTuning:
    """A gateway looking after books."""

    look_s: float = 1.0
    """Between two looks at all books."""
    idle_s: float = 0.25
    """Between two looks for free slots, where nothing says that there are some."""
    calm_s: float = 1.0
    """Slots that were given back are not taken again for so long: listeners come in bursts."""
    books: int = 8
    """How many one gateway speaks at once, besides one for each key."""
    hold: HoldTuning = field(default_factory=HoldTuning)


class JobRunner:
    """One gateway's. `run` while it serves, and `close` when it begins to leave. job_store, reader:
    for the routes.
    """

    def __init__(
        self,
        context: GatewayContext,
        job_store: JobStore,
        tuning: JobRunnerTuning = JobRunnerTuning(),
    ) -> None:
        self._context = context
        self.job_store = job_store
        self._tuning = tuning
        self._services = context.services
        self._offline = context.services.admission.offline
        self._offline.give_way = self._give_way
        self.reader = BookReader()
        self._staleness = Staleness(context.services.bus)
        self._runs: dict[str, BookRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._calm_from_s: dict[str, float] = {}
        self._removing: set[str] = set()
        self._chores = Chores()
        self._asked = asyncio.Event()
        self._closed = False

    async def run(self) -> None:
        """Take books and speak them, until cancelled."""
        giving = asyncio.create_task(self._give_slots(), name="book-slots")
        try:
            while True:
                await self._look()
                if giving.done():
                    giving.result()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._tuning.look_s):
                        await self._asked.wait()
                self._asked.clear()
        finally:
            await stop(giving)
            await self.close()

    def wake(self) -> None:
        """A book was stored: it need not wait for the next look."""
        self._asked.set()

    async def close(self) -> None:
        """Let other gateways have the books; safe to call twice."""
        self._closed = True
        await stop(*self._tasks.values(), again_s=5.0)
        await self._chores.finish(0.0)

    async def cancel(self, tenant: str, book_id: str) -> None:
        """Stop a book, wherever it is spoken, and remove it; raises NotFound, BusUnavailable."""
        self._leave_behind(await self.job_store.withdraw(tenant, book_id))
        self.wake()

    # which books

    async def _look(self) -> None:
        """Take what no gateway speaks, and remove what has expired."""
        try:
            for found in await self._free(await self.job_store.all()):
                await self._take(found)
        except BusUnavailable as error:
            log_.info("books.unseen", error=error.message)
            self._staleness.blind()

    async def _free(self, found: list[FoundBook]) -> list[FoundBook]:
        """Those that this gateway may take, in the order of their coming."""
        now = time.time()
        free = []
        for one in found:
            record = one.record
            if record.over:
                if record.expires_unix_s < now and record.book_id not in self._removing:
                    self._removing.add(record.book_id)
                    self._chores.start(self._remove(record))
            elif record.book_id not in self._tasks and await self._staleness.of(one):
                free.append(one)
        self._staleness.keep(one.record.book_id for one in found)
        return free

    async def _remove(self, record: BookRecord) -> None:
        """What fails is tried again at the next look."""
        try:
            await self.job_store.remove(record)
        except BusUnavailable as error:
            log_.info("book.not_removed", job=record.book_id, error=error.message)
        finally:
            self._removing.discard(record.book_id)

    async def _take(self, found: FoundBook) -> None:
        record = found.record
        if self._closed or not self._has_room(record.tenant):
            return
        owner = self._services.bus.worker_id
        tuning = self._tuning.hold
        hold = await BookHold.take(self.job_store, found, owner, tuning, time.time())
        if hold is None:
            return
        log_.info("book.taken", job=record.book_id, epoch=hold.record.epoch, was=record.owner)
        self._leave_behind(record)
        task = asyncio.create_task(self._speak(hold), name=f"book-{record.book_id}")
        self._tasks[record.book_id] = task
        self._services.metrics.books_held.labels().set(len(self._tasks))

    def _has_room(self, tenant: str) -> bool:
        """Every key has one book spoken, however many others have."""
        held = Counter(run.tenant for run in self._runs.values())
        return len(self._tasks) < self._tuning.books or not held[tenant]

    def _leave_behind(self, before: BookRecord) -> None:
        """What the owner before this one had in work is not waited for."""
        for request_id in before.running:
            for redraw in range(MOST_REDRAWS + 1):
                self._services.cancel(f"{request_id}-{redraw}", "taken over", ended=False)
        if before.owner:
            self._chores.start(self.job_store.clear(unfinished_of(before)))

    # a book

    async def _speak(self, hold: BookHold) -> None:
        """Until it is over, or lost."""
        book_id = hold.record.book_id
        holding = asyncio.create_task(hold.run(), name=f"hold-{book_id}")
        speaking = asyncio.create_task(self._spoken(hold), name=f"spoken-{book_id}")
        try:
            await asyncio.wait((holding, speaking), return_when=asyncio.FIRST_COMPLETED)
            if holding.done() and not holding.cancelled():
                holding.result()
            speaking.result()
        except BookLost:
            await stop(speaking)
            await self._lost(hold)
        except asyncio.CancelledError:
            await stop(speaking, holding)
            await _let_go(hold)
            raise
        except Exception as error:
            log_.error("book.fault", job=book_id, exc_info=error)
        finally:
            await stop(holding, speaking)
            self._tasks.pop(book_id, None)
            self._services.metrics.books_held.labels().set(len(self._tasks))

    async def _spoken(self, hold: BookHold) -> None:
        record = hold.record
        text = await patiently(lambda: self.job_store.portions(record), record.text_name)
        run = BookRun(self._context, self.job_store, hold, text, self._changed)
        self._runs[record.book_id] = run
        self._changed.set()
        try:
            await run.run()
        finally:
            del self._runs[record.book_id]

    async def _lost(self, hold: BookHold) -> None:
        """Deleted, or another gateway's."""
        log_.info("book.lost", job=hold.record.book_id, epoch=hold.record.epoch)
        with suppress(BusUnavailable):
            found = await self.job_store.look(key_of(hold.record))
            if found is None or found.record.state == "removing":
                await self.job_store.clear(made_of(hold.record))

    # slots

    async def _give_slots(self) -> None:
        while True:
            for model in {run.model for run in self._runs.values()}:
                self._fill(model)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._tuning.idle_s if self._runs else None):
                    await self._changed.wait()
            self._changed.clear()

    def _fill(self, model: str) -> None:
        """Start as many portions as there is room for, for each key by its share."""
        if time.monotonic() < self._calm_from_s.get(model, 0.0) or self._closed:
            return
        speaking = self._speaking(model)
        room = self._offline.room(model) + self._offline.held.get(model, 0) - len(speaking)
        working = sum(len(run.working) for run in self._runs.values())
        room = min(room, self._context.settings.max_job_streams - working)
        held = Counter(run.tenant for run, _ in speaking)
        while room > 0:
            startable = [r for r in self._runs.values() if r.model == model and r.startable]
            if not startable:
                return
            run = min(startable, key=lambda r: (held[r.tenant] / self._weight(r.tenant), r.age))
            run.start()
            held[run.tenant] += 1
            room -= 1

    def _speaking(self, model: str) -> list[tuple[BookRun, SpokenPortion]]:
        """Portions of a model that hold slots, or are about to."""
        runs = (run for run in self._runs.values() if run.model == model)
        return [(run, one) for run in runs for one in run.working.values() if one.speaking]

    def _weight(self, tenant: str) -> float:
        known = self._context.keys.tenants.get(tenant)
        return 1.0 if known is None else known.weight

    def _give_way(self, model: str, count: int) -> None:
        """Listeners need slots: the portions that began last give way."""
        self._calm_from_s[model] = time.monotonic() + self._tuning.calm_s
        speaking = [one for _, one in self._speaking(model)]
        count -= sum(one.leaving for one in speaking)
        staying = [one for one in speaking if not one.leaving]
        for one in sorted(staying, key=lambda one: -one.began_s)[: max(0, count)]:
            one.leave()


async def _let_go(hold: BookHold) -> None:
    with suppress(BookLost, TimeoutError):
        async with asyncio.timeout(2.0):
            await hold.let_go()
