"""Connections that each client holds, counted while they are held."""

from __future__ import annotations

from collections import Counter

from gateway.errors import TooManyConnections


class ConnectionCounts:
    """Places by name; a name without a place takes no memory."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    def held(self, name: str) -> int:
        return self._held[name]

    def take(self, name: str, most: int | None, whose: str) -> None:
        """Take one of the `most` places of `name`; raises TooManyConnections. None: no limit."""
        if most is not None and self._held[name] >= most:
            raise TooManyConnections(f"{whose} holds {most} connections already")
        self._held[name] += 1

    def leave(self, name: str) -> None:
        """Give a place back."""
        self._held[name] -= 1
        if not self._held[name]:
            del self._held[name]
