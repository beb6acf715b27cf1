"""Rows of a request on their way into its text log, from whichever connection produces them.

The log is the truth: a producer that comes back is told how many rows are in it and goes on there,
and the connection before it is fenced, by the same epochs as any other writer of a log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from gateway.errors import InputTooFast, ProducedElsewhere, WrongOrder
from ttscommon.bus import Bus, LogWriter
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError, BadRequest, Fenced, TextTooLong
from ttscommon.wire.messages import End, RowsPiece
from ttscommon.wire.subjects import TEXT
from ttscommon.wire.tensors import FloatRows

# Bytes that may wait to be stored: a thinker's prompt comes faster than a broker takes it.
MOST_WAITING_BYTES: Final = 4 << 20
# Pieces of one request: the log keeps as many records.
MOST_PIECES: Final = 3500
MOST_ROWS: Final = 32_768


class Production:
    """The rows of one request over one connection, which calls `start`, `add` and `finish`.

    width: of a row. accepted: called with how many rows are in the log, from its beginning, as soon
    as that is known and whenever more are. failed: called once with what ended it.
    """

    def __init__(
        self,
        bus: Bus,
        request_id: str,
        tenant: str,
        width: int,
        *,
        accepted: Callable[[int], None],
        failed: Callable[[AntiphonError], None],
    ) -> None:
        self.request_id = request_id
        self.complete = False
        self._bus, self._tenant, self._width = bus, tenant, width
        self._accepted, self._failed = accepted, failed
        self._next: int | None = None  # the row that comes next, once the log has said so
        self._pieces: deque[FloatRows] = deque()
        self._bytes = self._count = 0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, *, fresh: bool) -> None:
        """Take the log. fresh: the request is new, so that nothing is in it."""
        if fresh:
            self._next = 0
        self._task = asyncio.create_task(self._run(fresh), name=f"rows-{self.request_id}")

    def add(self, rows: FloatRows, start: int) -> None:
        """Take rows `start` and following; what is in the log already is left out.

        Raises WrongOrder, BadRequest, TextTooLong, InputTooFast; then nothing was taken.
        """
        if self._next is None or self.complete:
            raise WrongOrder("rows must follow input.accepted, and come before input.done")
        if start > self._next:
            raise WrongOrder(f"row {self._next} comes next, not {start}", param="start")
        if rows.shape[1] != self._width:
            raise BadRequest(f"rows are {rows.shape[1]} wide, not {self._width}", param="rows")
        if not rows.finite:
            raise BadRequest("the rows hold values that are no finite numbers", param="rows")
        if (end := start + len(rows)) <= self._next:
            return
        self._require_room(end, len(rows.data))
        self._pieces.append(rows.part(self._next - start, len(rows)))
        self._bytes, self._count, self._next = self._bytes + len(rows.data), self._count + 1, end
        self._changed.set()

    def _require_room(self, rows: int, size: int) -> None:
        if rows > MOST_ROWS or self._count >= MOST_PIECES:
            raise TextTooLong(
                f"a request has at most {MOST_ROWS} rows, in at most {MOST_PIECES} pieces",
                param="rows",
            )
        if self._pieces and self._bytes + size > MOST_WAITING_BYTES:
            raise InputTooFast(
                f"more than {MOST_WAITING_BYTES} bytes of rows wait to be stored: go on when"
                " input.accepted says that they are",
                param="rows",
            )

    def finish(self) -> None:
        """No more rows will come; safe to call twice."""
        self.complete = True
        self._changed.set()

    def abandon(self) -> None:
        """Write nothing more; the request is over."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Let the log go: its rows may go on over another connection. Safe to call twice."""
        if self._task is not None:
            await stop(self._task)
            self._task = None

    async def _run(self, fresh: bool) -> None:
        try:
            await self._write(fresh)
        except Fenced:
            self._failed(ProducedElsewhere("the rows of this request come over another connection"))
        except AntiphonError as error:
            self._failed(error)

    async def _write(self, fresh: bool) -> None:
        writer = await self._writer(fresh)
        try:
            if writer.ended:
                raise ProducedElsewhere("the rows of this request are complete")
            self._next = writer.position if self._next is None else self._next
            self._accepted(writer.position)
            while (rows := await self._taken()) is not None:
                await writer.put(RowsPiece(self.request_id, writer.position, rows))
                await writer.settle()
                self._accepted(writer.position)
            await writer.end(End(self.request_id, writer.position, "ok"))
            await writer.close()
        finally:
            await writer.release()

    async def _writer(self, fresh: bool) -> LogWriter:
        """A writer of a later epoch than any before."""
        epoch = 1
        if not fresh:
            last = await self._bus.log(TEXT, self.request_id).last()
            epoch = 2 if last is None else last.record.epoch + 1
        return await self._bus.writer(
            TEXT, self.request_id, epoch, restore=False, tenant=self._tenant
        )

    async def _taken(self) -> FloatRows | None:
        """The next rows; None at their end."""
        while not self._pieces:
            if self.complete:
                return None
            self._changed.clear()
            await self._changed.wait()
        rows = self._pieces.popleft()
        self._bytes -= len(rows.data)
        return rows
