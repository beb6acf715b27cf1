"""The texts of jobs, read for all keys: what one key sends holds up no other for long."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from ttscommon.books import InvalidBook, ReadBook, ReadOrder, read_apart
from ttscommon.wire.errors import Overloaded

# Processes at once, and texts of one key, that which is read included, each in memory.
_AT_ONCE: Final = 2
_MOST_GIVEN: Final = 8
_AGAIN_S: Final = 5.0


class BookReader:
    """Reads one text of a key at a time, and keys in the order of their coming."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._turns: dict[str, asyncio.Lock] = {}
        self._given: Counter[str] = Counter()

    @property
    def busy(self) -> bool:
        """A text is read, or waits."""
        return bool(self._given)

    async def read(self, tenant: str, order: ReadOrder, data: bytes) -> ReadBook:
        """Raises InvalidBook; Overloaded where the key has too many texts here already."""
        if not data.strip():
            raise InvalidBook("there is no text in the book")
        if self._given[tenant] >= _MOST_GIVEN:
            raise Overloaded("this key's texts wait to be read", retry_after_s=_AGAIN_S)
        self._given[tenant] += 1
        try:
            async with self._turns.setdefault(tenant, asyncio.Lock()), self._places:
                return await read_apart(order, data)
        finally:
            self._given[tenant] -= 1
            if not self._given[tenant]:
                del self._given[tenant], self._turns[tenant]


__all__ = ["BookReader"]
