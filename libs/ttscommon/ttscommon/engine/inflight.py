"""Launches that are computed while the host works on: their order, sizes, and writes."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Literal, TypeVar

import structlog


class BatchSizes:
    """Sizes in ascending order."""

    def __init__(self, sizes: Sequence[int]) -> None:
        if not sizes or min(sizes) < 1:
            raise ValueError("there is at least one size, and all are positive")
        self.sizes = tuple(sorted(set(sizes)))

    @classmethod
    def doubling(cls, most: int, least: int = 1) -> BatchSizes:
        """least, twice that, ... and `most`."""
        sizes = []
        while least < most:
            sizes.append(least)
            least *= 2
        return cls([*sizes, most])

    def fit(self, size: int) -> int | None:
        """The least that holds `size`; None if none does."""
        at = bisect_left(self.sizes, size)
        return self.sizes[at] if at < len(self.sizes) else None


Command = Callable[[], object]
RowT = TypeVar("RowT")
TicketT = TypeVar("TicketT")

# By a recorded graph, or operation by operation.
LaunchPath = Literal["graph", "eager"]

log_ = structlog.get_logger(__name__)


class DeviceError(Exception):
    """The device itself failed. The engine ends: no stream is to blame, and none can go on."""


def reason(error: BaseException) -> str:
    """What an error says; an assertion says nothing but where it stands."""
    return str(error) or repr(error)


class InFlight(Generic[TicketT]):
    """Launches not yet collected, and what must not be given back before they are.

    Whatever a launch may still write, a slot's row or a KV block, waits in `release` until every
    launch that was in flight at that moment has been collected.
    """

    def __init__(self) -> None:
        self._tickets: deque[tuple[int, TicketT]] = deque()
        self._waiting: deque[tuple[int, Command]] = deque()
        self._launched = 0

    def __len__(self) -> int:
        return len(self._tickets)

    def launched(self, ticket: TicketT) -> None:
        self._launched += 1
        self._tickets.append((self._launched, ticket))

    def oldest(self) -> TicketT:
        """The ticket to collect next; `settle` once it is."""
        return self._tickets[0][1]

    def settle(self) -> None:
        """The oldest launch has been collected: give back what waited for it."""
        number, _ = self._tickets.popleft()
        while self._waiting and self._waiting[0][0] <= number:
            self._waiting.popleft()[1]()

    def release(self, give_back: Command) -> None:
        """Call `give_back` as soon as no launch is in flight that is in flight now."""
        if self._tickets:
            self._waiting.append((self._tickets[-1][0], give_back))
        else:
            give_back()


def launch_bisected(
    rows: Sequence[RowT], launch: Callable[[Sequence[RowT]], TicketT]
) -> tuple[list[tuple[Sequence[RowT], TicketT]], list[tuple[RowT, Exception]]]:
    """Launch `rows` as one batch; where that raises, as halves, until the guilty stand alone.

    Returns what was launched, and the rows that raise alone with their errors. Raises DeviceError.
    """
    if not rows:
        return [], []
    try:
        return [(rows, launch(rows))], []
    except DeviceError:
        raise
    except Exception as error:
        if len(rows) == 1:
            return [], [(rows[0], error)]
        log_.warning("launch.failed", rows=len(rows), error=reason(error))
    middle = len(rows) // 2
    launched, failed = launch_bisected(rows[:middle], launch)
    more, others = launch_bisected(rows[middle:], launch)
    return [*launched, *more], [*failed, *others]
