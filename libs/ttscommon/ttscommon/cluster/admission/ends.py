"""Expected ends of the streams that are in the way. Pure: the caller brings the clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

# A stream is expected to go on for so much longer once it has taken as long as was expected.
_OVERDUE_S: Final = 1.0
# Those told to come back are expected for so long after their time.
_KEPT_S: Final = 1.0

# Multiples of it are spread evenly, whatever their number.
_GOLDEN: Final = 0.618


class Running(Protocol):
    """A stream, as far as its end is concerned."""

    @property
    def characters(self) -> int: ...
    @property
    def began_s(self) -> float: ...


@dataclass
class Ends:
    """How long a stream takes for each character of its text, learned from those that ended.

    A refused caller is told when the first stream will have ended for which no other was told to
    come back: all of them at once would find one place. Callers are told to stay away for most_s at
    most: those who would be for longer come spread over its second half.
    """

    weight: float = 0.2
    character_s: float = 0.06
    least_s: float = 0.5
    _learned: int = 0
    _promised: dict[str, deque[float]] = field(default_factory=dict)

    def learn(self, characters: int, held_s: float) -> None:
        """A stream of so many characters took so long."""
        if characters > 0:
            self._learned += 1
            weight = max(self.weight, 1 / self._learned)
            self.character_s += weight * (held_s / characters - self.character_s)

    def left_s(self, stream: Running, now: float) -> float:
        """For how long it is expected to go on."""
        expected_s = max(self.least_s, stream.characters * self.character_s)
        left_s = stream.began_s + expected_s - now
        return left_s if left_s > 0 else _OVERDUE_S

    def promise(
        self, kind: str, streams: Iterable[Running], now: float, most_s: float
    ) -> float | None:
        """Seconds after which one of `streams` has ended, for the next who asks for that `kind`.

        None without streams.
        """
        ends = sorted(self.left_s(stream, now) for stream in streams)
        if not ends:
            return None
        promised = self._promised.setdefault(kind, deque())
        while promised and promised[0] + _KEPT_S <= now:
            promised.popleft()
        rounds, place = divmod(len(promised), len(ends))
        wait_s = ends[place] + rounds * ends[-1]
        if wait_s > most_s:
            wait_s = most_s * (1.0 + len(promised) * _GOLDEN % 1.0) / 2.0
        promised.append(max(now + wait_s, promised[-1] if promised else 0.0))
        return wait_s
