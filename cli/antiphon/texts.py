"""A text as requests that a gateway takes: it limits how long one may be, files have no limit."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

# Half of what gateways take by default; the next request begins at a sentence from here on.
REQUEST_CHARS: Final = 4000
# A text without any sentence is cut at a word from here on.
LONGEST_CHARS: Final = 6000

_BREAK: Final = re.compile(r"[.!?…][\"'”’)\]]*\s+|\n\s*\n")


class Requests:
    """Iterates over requests, each of them an iterator over its pieces as they come."""

    def __init__(self, text: AsyncIterator[str]) -> None:
        self._text = text
        self._rest = ""
        self._ended = False
        self._sent = False

    async def __aiter__(self) -> AsyncIterator[AsyncIterator[str]]:
        yield self._request()
        while await self._more():
            yield self._request()

    async def _more(self) -> bool:
        """Whether anything but space follows a request that was told to its end."""
        if not self._sent:
            return False
        while not self._rest.strip() and not self._ended:
            await self._read()
        return bool(self._rest.strip())

    async def _read(self) -> None:
        try:
            self._rest += await anext(self._text)
        except StopAsyncIteration:
            self._ended = True

    async def _request(self) -> AsyncIterator[str]:
        self._sent, told = False, 0
        while True:
            if not self._rest and not self._ended:
                await self._read()
            cut = _cut(self._rest, told)
            piece, self._rest = self._rest[:cut], self._rest[cut:]
            told += len(piece)
            self._sent = bool(self._rest) or self._ended
            if piece:
                yield piece
            if self._sent:
                return


def _cut(piece: str, told: int) -> int:
    """How much of a piece belongs to a request that holds `told` characters."""
    if told + len(piece) <= REQUEST_CHARS:
        return len(piece)
    sentence = _BREAK.search(piece, max(0, REQUEST_CHARS - told))
    if sentence and told + sentence.end() <= LONGEST_CHARS:
        return sentence.end()
    if told + len(piece) <= LONGEST_CHARS:
        return len(piece)
    space = piece.rfind(" ", 0, max(1, LONGEST_CHARS - told))
    return space + 1 if space > 0 else max(1, LONGEST_CHARS - told)
