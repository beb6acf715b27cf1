"""The live half of an audio writer: sound goes live alone, to a reader that has room for it."""

from __future__ import annotations

import asyncio

from ttscommon.bus.link import Incoming, Link
from ttscommon.bus.logs.commits import Commits
from ttscommon.bus.logs.credit import Credit
from ttscommon.bus.logs.takeover import WriterTuning
from ttscommon.bus.logs.window import Pending, Tail
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.messages import Position
from ttscommon.wire.repairs import HEEDED, CreditGrant, reader_says
from ttscommon.wire.subjects import AUDIO


class LiveAudio:
    """Keeps the last of what was sent, and knows what readers take and where they want to be.

    `over`: the End was sent. `begun`: it is known from where on readers are sent anything.
    """

    def __init__(self, link: Link, request_id: str, commits: Commits, tuning: WriterTuning) -> None:
        self.position = 0
        self.over = False
        self.begun = True
        self.credit = Credit(tuning.credit_bytes)
        self._link = link
        self._request_id = request_id
        self._subject = AUDIO.live(request_id)
        self._commits = commits
        self._resend_bytes = tuning.resend_bytes
        self._sent = Tail(tuning.tail_bytes)
        self._sought: int | None = None
        self._seek = asyncio.Event()

    async def deliver(self, pending: Pending) -> None:
        """Send it, and keep it for a reader that lacks it."""
        self._sent.add(pending)
        await self.send(pending)

    def begin(self, position: int) -> None:
        """Readers are sent what comes at `position` and behind it."""
        if not self.begun:
            self.credit.begin(position)
        self._sought = None
        self._seek.clear()
        self.begun = True
        self._sent.begin(position)
        self.position = position

    def forget(self) -> None:
        """Keep nothing of what was sent."""
        self._sent.begin(self.position)

    async def sought(self) -> Position:
        """Wait until a reader asks for what is not here any more, or not yet."""
        await self._seek.wait()
        return Position(self._request_id, self._sought or 0)

    async def send(self, pending: Pending) -> None:
        """Readers keep nothing of what they heard, so how far the log is tells them nothing."""
        await self._link.send_raw(self._subject, pending.data)

    async def resend(self) -> None:
        """Say how far it is: readers ask for what they lack."""
        await self.send(self._commits.pending(Position(self._request_id, self.position)))
        for pending in self._commits.window:
            await self.send(pending)

    async def on_nack(self, message: Incoming) -> None:
        try:
            said = reader_says(message.data)
        except MalformedMessage:
            return
        if isinstance(said, CreditGrant):
            self.credit.heed(said)
            await self._heeded(message)
        else:
            await self._supply(said.position, message)

    async def _supply(self, position: int, message: Incoming) -> None:
        """Send what comes at `position`, or have it made first."""
        missing = not self.begun or position < self._sent.start
        if missing and self.over:
            return  # the reader has it made again
        await self._heeded(message)
        if missing:
            self._sought = position if self._sought is None else min(position, self._sought)
            self._seek.set()
            return
        for pending in self._sent.behind(position, self._resend_bytes):
            await self.send(pending)

    async def _heeded(self, message: Incoming) -> None:
        if message.reply:
            await self._link.reply(message.reply, HEEDED)
