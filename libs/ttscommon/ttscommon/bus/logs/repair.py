"""Asks for what is missing, again and again until it is there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

from ttscommon.bus.link import Incoming
from ttscommon.bus.logs.credit import CREDIT_BYTES
from ttscommon.bus.logs.inbox import Inbox, Suspicion


@dataclass(frozen=True)
class ReaderTuning:
    """Reading a log live, and repairing what was missed. A reconnection or a gap starts a repair at
    once.
    """

    queued: int = 1024
    """Records that may wait for the reader."""
    catch_up: int = 64
    """How many of them a reader that is far behind reads at once."""
    credit_bytes: int = CREDIT_BYTES
    """Bytes of audio that may wait, see bus/logs/credit.py."""
    idle_first_s: float = 1.5
    """Silence that starts a repair: longer than a chunk's cadence; doubled each time."""
    idle_most_s: float = 6.0
    """The longest such silence."""
    gap_retry_s: float = 0.05
    """Between two repairs of one gap, doubled each time."""
    gap_longest_s: float = 0.2
    """The longest such pause."""
    gone_s: float = 1.0
    """How long a writer may take to send again what the store has dropped."""
    ask_s: float = 0.1
    """How long a writer may take to answer before the log is read."""


DEFAULT_TUNING: Final = ReaderTuning()


class RepairSource(Protocol):
    """Where a reader gets what it missed, and what it says to the writer.

    `logged`: records themselves are in the log, and not positions alone.
    """

    logged: bool

    async def repair(self, *, lost: bool) -> bool:
        """Get some of what is missing into the inbox; False if the broker could not be asked.

        `lost`: the writer's word is not enough.
        """

    def judge(self) -> None:
        """A repair left a gap: give up on what can never come."""

    async def answer(self, question: Incoming) -> None:
        """A writer's successor asks what was heard, or where the reader stands."""


class RepairLoop:
    """Runs until the inbox has the End."""

    def __init__(
        self, inbox: Inbox, suspicion: Suspicion, source: RepairSource, tuning: ReaderTuning
    ) -> None:
        self._inbox = inbox
        self._suspicion = suspicion
        self._source = source
        self._tuning = tuning
        self._pause_s = tuning.gap_retry_s

    async def run(self) -> None:
        while not self._inbox.over:
            await self._suspicion.wait()
            if not self._wanting:
                continue  # what was missing has come meanwhile
            if self._inbox.supplied:
                self._inbox.more = True  # asked for when there is room
                continue
            await self._repair()

    @property
    def _wanting(self) -> bool:
        suspicion, inbox = self._suspicion, self._inbox
        return suspicion.behind or suspicion.lost or inbox.more or inbox.timeline.gap

    async def _repair(self) -> None:
        inbox, before = self._inbox, self._inbox.timeline.next
        repaired = await self._source.repair(lost=self._suspicion.settle())
        self._suspicion.lost = self._suspicion.lost or not repaired
        if repaired and (inbox.more or not inbox.timeline.gap):
            self._pause_s = self._tuning.gap_retry_s
            inbox.ask_if_hungry()
            return
        self._source.judge()
        await asyncio.sleep(self._pause_s)
        progress = inbox.timeline.next > before
        pause_s = self._tuning.gap_retry_s if progress else 2 * self._pause_s
        self._pause_s = min(pause_s, self._tuning.gap_longest_s)
        self._suspicion.arouse()
