"""Whose turn it is where several gateways see the same free streams.

What a gateway admits is known to the others a moment later. In that moment it takes no more than
its part of what was free, so that all of them together take about what was there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gateway.admission.peers import Peers

_RECENT_S: Final = 1.0


@dataclass
class Turns:
    """What this gateway took of each kind in the window that is open.

    A window closes after `window_s`, and not before the word that tells of it has come back from
    the broker, and with it all that the others said before: a busy gateway hears late. It closes
    after `most_s` anyway, where there is no broker.
    """

    peers: Peers
    window_s: float = 0.1
    most_s: float = 1.0
    _said: int = 0
    _echoed: int = 0
    _told: int = 0
    _admitted_s: deque[float] = field(default_factory=deque)
    _taken: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)

    def took(self, kinds: Iterable[str], now: float) -> None:
        """A request was admitted, which takes one of each kind."""
        if self.peers:
            self._admitted_s.append(now)
            for kind in kinds:
                self._taken.setdefault(kind, deque()).append((now, self._said + 1))

    def say(self, now: float) -> tuple[int, int]:
        """What the others are told next: requests admitted in the last second, and the number of
        the word, which tells of all that was taken before.
        """
        while self._admitted_s and self._admitted_s[0] + _RECENT_S <= now:
            self._admitted_s.popleft()
        self._said += 1
        return len(self._admitted_s), self._said

    def echo(self, word: int, recent: int) -> None:
        """A word of this gateway came back: the others know it, and `recent` in it."""
        self._told = recent
        self._echoed = max(self._echoed, word)

    def has_come(self, kind: str, free: float, now: float) -> bool:
        """Whether one more of `free` may be taken: a gateway may take its share of what was free
        before the window, and always one.
        """
        taken = self._within(kind, now)
        share = self.peers.share(self._told)  # or the shares of all were more than one
        return not taken or len(taken) + 1 <= (free + len(taken)) * share

    def _within(self, kind: str, now: float) -> deque[tuple[float, int]]:
        taken = self._taken.get(kind, deque())
        while taken and self._is_over(*taken[0], now):
            taken.popleft()
        if not taken:
            self._taken.pop(kind, None)
        return taken

    def _is_over(self, at_s: float, word: int, now: float) -> bool:
        known = word <= self._echoed or at_s + self.most_s <= now
        return known and at_s + self.window_s <= now
