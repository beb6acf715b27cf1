"""The committing half of a writer: owns a request's log, and writes behind what goes live."""

from __future__ import annotations

import asyncio

import msgspec

from ttscommon.bus.link import Link
from ttscommon.bus.logs.logstore import LogStore
from ttscommon.bus.logs.takeover import Predecessor, WriterTuning, find_predecessor
from ttscommon.bus.logs.window import Pending, Uncommitted
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError, BusUnavailable, Fenced
from ttscommon.wire.messages import LogRecord, Takeover, encode
from ttscommon.wire.subjects import Log


class Commits:
    """Records wait in the `window` and are committed in order, while this epoch owns the log.

    The fence is the subject's last sequence: as soon as a successor has committed its Takeover, the
    window fails with Fenced. `position`: the log holds everything before it. `settled`: the log is
    this epoch's, as its leader said.
    """

    def __init__(
        self,
        link: Link,
        logs: LogStore,
        log: Log,
        request_id: str,
        epoch: int,
        tenant: str,
        tuning: WriterTuning,
    ) -> None:
        self.epoch = epoch
        self.settled = True
        self.position = 0
        self.window = Uncommitted(tuning.window, tuning.recent)
        self._link = link
        self._logs = logs
        self._log = log
        self._request_id = request_id
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
            found = await find_predecessor(
                self._logs, self._log, self._request_id, self.epoch, self._tuning, restore=restore
            )
            self.position = found.position
            if found.ended:
                return found  # there is nothing left to own
            self.settled = False
            if not found.certain or await self._fence_in_time(found):
                return found  # else the predecessor got one more record in: look again

    def start(self) -> None:
        """Commit what waits, from now on."""
        name = f"commit-{self._log.nack(self._request_id)}"
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
            takeover = Takeover(self._request_id, tail.position, self.epoch, tail.checkpoint)
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
        tail = Predecessor.of(
            await self._logs.last(self._log, self._request_id, self._tuning.close_s), self.epoch
        )
        if tail.ended:
            raise Fenced(f"the log of {self._request_id} has its end", owner=tail.epoch)
        return tail

    async def _commit(self, data: bytes, *, owning: bool = True) -> int:
        self._written += 1
        writer = f"{self._link.worker_id}.{self.epoch}"
        message_id = f"{self._log.subject(self._request_id)}.{writer}.{self._written}"
        return await self._logs.commit(
            self._log,
            self._request_id,
            data,
            last=self._sequence,
            message_id=message_id,
            epoch=self.epoch if owning else None,
            tenant=self._tenant,
        )
