"""Flow control: how far a writer of audio may run ahead of its readers. Both halves of it.

A reader tells up to which sample it takes what comes, and asks for an answer, so that a lost
message is told again. Who writes or reads from a position on goes by `CREDIT_BYTES` until then:
short speeches need no message at all.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from ttscommon.bus.link import Link
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import BusUnavailable, NoResponders
from ttscommon.wire.repairs import CreditGrant

# 22 s of sound at 24 kHz: longer than any recovery takes, and twice what it takes to make it worth
# a vocoder's while to begin again.
CREDIT_BYTES: Final = 1 << 20
BYTES_PER_SAMPLE: Final = 2


@dataclass(frozen=True)
class GrantTuning:
    """A reader telling a log's writer how much it will take."""

    answer_s: float = 0.5
    """How long a writer may take to answer before it is told again."""
    rest_s: float = 0.5
    """Between two attempts where there is no writer; a new writer asks the reader where it stands.
    """


class Credit:
    """The writer's half: the sample up to which it may send.

    The latest word counts. Of two readers one is about to leave; the other, if it waits, tells its
    own again, and drops what it has no room for until then.
    """

    def __init__(self, credit_bytes: int) -> None:
        self.limit = self._samples = credit_bytes // BYTES_PER_SAMPLE
        self._sent = False
        self._changed = asyncio.Event()

    def begin(self, start: int) -> None:
        """A reader that has told nothing yet stands at `start`."""
        if not self._sent:
            self._move(start + self._samples)

    def heed(self, grant: CreditGrant) -> None:
        """Take a reader's word."""
        self._sent = True
        self._move(grant.limit)

    async def room(self, position: int, timeout_s: float | None = None) -> bool:
        """Wait until `position` may be sent; False if that takes longer than `timeout_s`."""
        if position < self.limit:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                while position >= self.limit:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _move(self, limit: int) -> None:
        self.limit = limit
        self._changed.set()


class Grants:
    """The reader's half: tells the writer of new room, half of the credit at a time.

    Less would have a vocoder begin again for every chunk that is read.
    """

    def __init__(self, link: Link, subject: str, start: int, credit_bytes: int) -> None:
        self.samples = credit_bytes // BYTES_PER_SAMPLE
        self.read = start
        self._link = link
        self._subject = subject
        self._tuning = GrantTuning()
        self._sent = start + self.samples
        self._again = False
        self._telling: asyncio.Task[None] | None = None
        self._rests_until_s = float("-inf")

    @property
    def limit(self) -> int:
        """The sample up to which there is room."""
        return self.read + self.samples

    def advance(self, position: int) -> None:
        """Everything before `position` was read."""
        self.read = position
        if self._due > self._sent:
            self._tell()

    def repeat(self) -> None:
        """The writer may not know."""
        self._again = True
        self._tell()

    async def close(self) -> None:
        if self._telling is not None:
            await stop(self._telling)

    @property
    def _due(self) -> int:
        """What the writer is to know."""
        return self.limit if self.limit - self._sent >= self.samples // 2 else self._sent

    def _tell(self) -> None:
        busy = self._telling is not None and not self._telling.done()
        if not busy and time.monotonic() >= self._rests_until_s:
            self._telling = asyncio.create_task(self._tell_all(), name=f"credit-{self._subject}")

    async def _tell_all(self) -> None:
        while self._again or self._due > self._sent:
            self._again, limit = False, self._due
            try:
                grant = CreditGrant(limit).encode()
                await self._link.request(self._subject, grant, self._tuning.answer_s)
                self._sent = limit
            except NoResponders:
                self._rests_until_s = time.monotonic() + self._tuning.rest_s
                return
            except BusUnavailable:
                self._again = True
                await asyncio.sleep(self._tuning.rest_s)
