"""The committing half of a writer: owns a request's log, and writes behind what goes live."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from ttscommon.bus.logs.logstore import RequestLog
from ttscommon.bus.logs.takeover import Predecessor, WriterTuning, find_predecessor
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError, BusUnavailable, Fenced
from ttscommon.wire.messages import End, LogRecord, Position, Takeover, encode


@dataclass(frozen=True)
class Pending:
    """A record, and how it is written."""

    record: LogRecord
    data: bytes


class Uncommitted:
    """At most `room` records that wait for their commit, oldest first.

    Once it has failed, every waiter gets the error.
    """

    def __init__(self, room: int, recent: int) -> None:
        self.failure: AntiphonError | None = None
        self._room = room
        self._waiting: deque[Pending] = deque()
        self._recent: deque[Pending] = deque(maxlen=recent)
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[Pending]:
        """What is not committed."""
        return iter(list(self._waiting))

    @property
    def empty(self) -> bool:
        return not self._waiting

    @property
    def start(self) -> int | None:
        """The position from which on everything is here; None if nothing is."""
        kept = self._recent or self._waiting
        return kept[0].record.start if kept else None

    async def add(self, pending: Pending) -> None:
        """Waits for room."""
        await self._wait(lambda: len(self._waiting) < self._room or self.failure is not None)
        if self.failure is not None:
            raise self.failure
        self._waiting.append(pending)
        self._tell()

    async def oldest(self) -> Pending:
        """What is to be committed next; waits for it."""
        await self._wait(lambda: bool(self._waiting))
        return self._waiting[0]

    def committed(self) -> None:
        """The oldest one is."""
        self._recent.append(self._waiting.popleft())
        self._tell()

    def skip_to(self, position: int, rewrite: Callable[[LogRecord], Pending]) -> None:
        """Drop what the log holds already; a record that it holds half of is rewritten."""
        while self._waiting and self._waiting[0].record.end <= position:
            if isinstance(self._waiting[0].record, End):
                break
            self._waiting.popleft()
        if self._waiting and self._waiting[0].record.start < position:
            chunk = self._waiting[0].record
            if not isinstance(chunk, End | Position | Takeover):
                self._waiting[0] = rewrite(chunk.tail(position))
        self._tell()

    def fail(self, error: AntiphonError) -> None:
        """Nothing more can be committed."""
        self.failure = error
        self._waiting.clear()
        self._tell()

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait until `done`, which is asked after every change, or it has failed."""
        await self._wait(lambda: self.failure is not None or done())

    def behind(self, position: int) -> list[Pending]:
        """What a reader may lack that has everything before `position`."""
        return [
            pending
            for pending in (*self._recent, *self._waiting)
            if pending.record.end > position or isinstance(pending.record, End)
        ]

    async def _wait(self, done: Callable[[], bool]) -> None:
        while not done():
            await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Tail:
    """The last `room` bytes of what was sent live, oldest first; at least one record is kept.

    `start`: the position of the first sample that is still here; what is asked for before it has
    left. Everything from there to what was sent last is here.
    """

    def __init__(self, room: int) -> None:
        self.start = 0
        self._room = room
        self._bytes = 0
        self._sent: deque[Pending] = deque()

    def add(self, pending: Pending) -> None:
        self._sent.append(pending)
        self._bytes += len(pending.data)
        while self._bytes > self._room and len(self._sent) > 1:
            gone = self._sent.popleft()
            self._bytes -= len(gone.data)
            self.start = gone.record.end

    def begin(self, start: int) -> None:
        """Forget all: what is sent next starts there."""
        self._sent.clear()
        self._bytes, self.start = 0, start

    def behind(self, position: int, most: int) -> list[Pending]:
        """What a reader lacks that has everything before `position`, of about `most` bytes."""
        found: list[Pending] = []
        size = 0
        for pending in self._sent:
            if pending.record.end <= position and not isinstance(pending.record, End):
                continue
            if found and size + len(pending.data) > most:
                break
            found.append(pending)
            size += len(pending.data)
        return found


class Commits:
    """Records wait in the `window` and are committed in order, while this epoch owns the log.

    The fence is the subject's last sequence: as soon as a successor has committed its Takeover, the
    window fails with Fenced. `position`: the log holds everything before it. `settled`: the log is
    this epoch's, as its leader said.
    """

    def __init__(self, log: RequestLog, epoch: int, tenant: str, tuning: WriterTuning) -> None:
        self.epoch = epoch
        self.settled = True
        self.position = 0
        self.window = Uncommitted(tuning.window, tuning.recent)
        self._log = log
        self._tenant = tenant
        self._tuning = tuning
        self._sequence = 0
        self._written = 0
        self._committer: asyncio.Task[None] | None = None

    @property
    def up_to_date(self) -> bool:
        """The next record goes to the log at once."""
        return self.settled and self.window.empty

    def pending(self, record: LogRecord) -> Pending:
        """The record as this epoch's, and how it is written."""
        own = msgspec.structs.replace(record, epoch=self.epoch)
        return Pending(own, encode(own))

    async def take_over(self, *, restore: bool) -> Predecessor:
        """Fence the predecessor; where it ended, as far as can be known now.

        Raises Fenced if a later epoch owns the log, BusUnavailable.
        """
        while True:
            found = await find_predecessor(self._log, self.epoch, self._tuning, restore=restore)
            self.position = found.position
            if found.ended:
                return found  # there is nothing left to own
            self.settled = False
            if not found.certain or await self._fence_in_time(found):
                return found  # else the predecessor got one more record in: look again

    def start(self) -> None:
        """Commit what waits, from now on."""
        name = f"commit-{self._log.nack}"
        self._committer = asyncio.create_task(self._run(), name=name)

    async def finish(self, timeout_s: float | None) -> None:
        """Wait until everything is committed, or nothing can be any more.

        Raises BusUnavailable when the broker stayed away for `timeout_s`.
        """
        try:
            async with asyncio.timeout(self._tuning.close_s if timeout_s is None else timeout_s):
                await self.window.until(lambda: self.up_to_date)
        except TimeoutError:
            raise BusUnavailable("the log could not be committed in time") from None

    async def stop(self) -> None:
        """Commit nothing more; safe to call twice."""
        if self._committer is not None:
            await stop(self._committer)
            self._committer = None

    async def _run(self) -> None:
        try:
            await self._settle()
            while True:
                pending = await self.window.oldest()
                self._sequence = await self._commit(pending.data)
                self.position = pending.record.end
                self.window.committed()
        except AntiphonError as error:
            self.window.fail(error)

    async def _fence_in_time(self, found: Predecessor) -> bool:
        """False if the predecessor was faster. A leader that is slow or gone is not waited for:
        the fence is then committed as soon as there is one, and audio goes on meanwhile.
        """
        try:
            async with asyncio.timeout(self._tuning.leader_s):
                return await self._fence(found)
        except (TimeoutError, BusUnavailable):
            return True

    async def _fence(self, tail: Predecessor) -> bool:
        """Commit the Takeover right behind `tail`; False if there is something else by now.

        Raises LogUnwritable, BusUnavailable.
        """
        self._sequence = tail.sequence
        if not tail.own:
            takeover = Takeover(self._log.request_id, tail.position, self.epoch, tail.checkpoint)
            try:
                self._sequence = await self._commit(encode(takeover), owning=False)
            except Fenced:
                return False
        self.window.skip_to(tail.position, self.pending)
        self.position = max(self.position, tail.position)
        self.settled = True
        return True

    async def _settle(self) -> None:
        """Commit a Takeover that had to wait for the log's leader.

        What the predecessor got in beyond `position` meanwhile is true: it is not written again.
        Raises Fenced, LogUnwritable, BusUnavailable.
        """
        while not self.settled and not await self._fence(await self._tail()):
            pass

    async def _tail(self) -> Predecessor:
        """The log's end as its leader has it; raises Fenced if it is not to be written any more."""
        tail = Predecessor.of(await self._log.last(self._tuning.close_s), self.epoch)
        if tail.ended:
            raise Fenced(f"the log of {self._log.request_id} has its end", owner=tail.epoch)
        return tail

    async def _commit(self, data: bytes, *, owning: bool = True) -> int:
        self._written += 1
        writer = f"{self._log.link.worker_id}.{self.epoch}"
        message_id = f"{self._log.subject}.{writer}.{self._written}"
        return await self._log.commit(
            data,
            last=self._sequence,
            message_id=message_id,
            epoch=self.epoch if owning else None,
            tenant=self._tenant,
        )
