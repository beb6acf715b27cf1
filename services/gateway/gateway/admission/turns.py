"""Whose turn it is where several gateways see the same free streams.

What a gateway admits is known to the others a moment later. In that moment it takes no more than
its part of what was free, so that all of them together take about what was there.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.admission.peers import Peers

_RECENT_S: Final = 1.0


class Turnstile:
    """One gateway's. `clock`: monotonic seconds."""

    def __init__(self, peers: Peers, clock: Callable[[], float]) -> None:
        self._peers = peers
        self._clock = clock
        self._turns = Turns()
        self._waiting: Counter[str] = Counter()
        self._admitted_s: deque[float] = deque()
        self._told = 0

    def took(self, kinds: Iterable[str], now: float) -> None:
        """A request was admitted, which takes one of each kind."""
        if self._peers:
            self._admitted_s.append(now)
            for kind in kinds:
                self._turns.took(kind, now)

    def say(self, now: float) -> tuple[int, int]:
        """What the others are told next: requests admitted in the last second, and the number of
        the word.
        """
        while self._admitted_s and self._admitted_s[0] + _RECENT_S <= now:
            self._admitted_s.popleft()
        return len(self._admitted_s), self._turns.say()

    def echo(self, word: int, recent: int) -> None:
        """A word of this gateway came back: the others know it, and `recent` in it."""
        self._told = recent
        self._turns.echoed = max(self._turns.echoed, word)

    async def wait(self, free: Callable[[], Mapping[str, float]]) -> bool:
        """Wait until a request may take one of each kind; False if more wait than are `free`.

        Where nothing is free nothing is waited for.
        """
        kinds = tuple(free())
        self._waiting.update(kinds)
        try:
            while True:
                left = {kind: amount for kind, amount in free().items() if amount > 0}
                if any(amount < self._waiting[kind] for kind, amount in left.items()):
                    return False
                if not (wait_s := self._wait_s(left)):
                    return True
                await asyncio.sleep(wait_s)
        finally:
            self._waiting.subtract(kinds)

    def _wait_s(self, left: Mapping[str, float]) -> float:
        now = self._clock()
        share = self._peers.share(self._told)  # or the shares of all were more than one
        waits = (self._turns.wait_s(kind, free, share, now) for kind, free in left.items())
        return max(waits, default=0.0)


@dataclass
class Turns:
    """What this gateway took of each kind in the window that is open.

    A window closes after `window_s`, and not before the word that tells of it has come back from
    the broker, and with it all that the others said before: a busy gateway hears late. It closes
    after `most_s` anyway, where there is no broker.
    """

    window_s: float = 0.1
    most_s: float = 1.0
    look_s: float = 0.01
    echoed: int = 0
    _said: int = 0
    _taken: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)

    def say(self) -> int:
        """The number of the next word, which tells of all that was taken before."""
        self._said += 1
        return self._said

    def took(self, kind: str, now: float) -> None:
        """One more of `kind` was taken."""
        self._taken.setdefault(kind, deque()).append((now, self._said + 1))

    def wait_s(self, kind: str, free: float, share: float, now: float) -> float:
        """Seconds until it is worth while to ask again; 0 if one more of `free` may be taken now.

        A gateway may take its `share` of what was free before the window, and always one.
        """
        taken = self._within(kind, now)
        if not taken or len(taken) + 1 <= (free + len(taken)) * share:
            return 0.0
        return max(self.look_s, taken[0][0] + self.window_s - now)

    def _within(self, kind: str, now: float) -> deque[tuple[float, int]]:
        taken = self._taken.get(kind, deque())
        while taken and self._is_over(*taken[0], now):
            taken.popleft()
        if not taken:
            self._taken.pop(kind, None)
        return taken

    def _is_over(self, at_s: float, word: int, now: float) -> bool:
        known = word <= self.echoed or at_s + self.most_s <= now
        return known and at_s + self.window_s <= now
