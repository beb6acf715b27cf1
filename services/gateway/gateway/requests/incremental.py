"""Text that arrives piece by piece: cleaned as it comes, and spoken while it is being written."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass

from gateway.requests.text import TextCleaner, speakable, too_long
from ttscommon.errors import AntiphonError, NothingToSay


@dataclass(frozen=True)
class Head:
    """The text that a request starts with. `final`: nothing follows."""

    text: str
    final: bool


class IncrementalText:
    """One request's text on its way in.

    The client's side calls `add` and `finish`. The request takes the `head` once, as soon as there
    is anything to say, and then each `next` piece.
    """

    def __init__(self, max_chars: int) -> None:
        self.complete = False
        self.touched_s = time.monotonic()
        self.failure: AntiphonError | None = None
        self._max_chars = max_chars
        self._chars = 0
        self._cleaner = TextCleaner()
        self._head = ""
        self._head_taken = False
        self._pieces: deque[str] = deque()
        self._changed = asyncio.Event()

    def add(self, text: str) -> None:
        """Take some text; raises TextTooLong, which also ends the request."""
        self._chars += len(text)
        if self._chars > self._max_chars:
            self.failure = too_long(self._chars, self._max_chars)
            self._touch()
            raise self.failure
        self._accept(self._cleaner.feed(text))

    def finish(self) -> None:
        """No more text will come; safe to call twice."""
        if self.complete:
            return
        self._accept(self._cleaner.feed("", final=True))
        self.complete = True
        self._touch()

    async def head(self, coalesce_s: float) -> Head:
        """The first text, as soon as there is anything to say.

        Waits `coalesce_s` more for the end, because a text that came in one go needs no text log.
        Raises NothingToSay for a text that ended without a speakable character, and TextTooLong.
        """
        while not (self.complete or self.failure or speakable(self._head)):
            await self._change()
        if not self.complete:
            await self._linger(coalesce_s)
        if self.failure is not None:
            raise self.failure
        if self.complete and not speakable(self._head):
            raise NothingToSay("there is nothing to say in the text", param="text")
        self._head_taken = True
        return Head(self._head, self.complete)

    async def next(self) -> str | None:
        """What has come since the last call, as one piece; None at the end."""
        while not self._pieces:
            if self.complete:
                return None
            await self._change()
        text = "".join(self._pieces)
        self._pieces.clear()
        return text

    async def _linger(self, coalesce_s: float) -> None:
        try:
            async with asyncio.timeout(coalesce_s):
                while not (self.complete or self.failure):
                    await self._change()
        except TimeoutError:
            return

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _accept(self, cleaned: str) -> None:
        if self._head_taken:
            if cleaned:
                self._pieces.append(cleaned)
        else:
            self._head = self._head + cleaned if self._head else cleaned.lstrip()
        self._touch()

    def _touch(self) -> None:
        self.touched_s = time.monotonic()
        self._changed.set()
