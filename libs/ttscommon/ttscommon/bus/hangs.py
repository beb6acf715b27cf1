"""A connection that hangs: the broker, or the way to it, swallows what is sent and says nothing.

The client library notices it after `ping_s` times `pings`. Here silence is broken by pings of our
own, and a connection that stays silent is left as soon as another one could be had: a broker that
answers no client, the only one or one of many, is waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

_GREETING: Final = b"INFO "

log_ = structlog.get_logger(__name__)

Address = tuple[str, int]


@dataclass(frozen=True)
class HangTuning:
    """Noticing a broker that stopped answering."""

    tick_s: float = 0.1
    """Between two looks while an answer is waited for."""
    late_s: float = 0.15
    """A look that is so late says that this process was stopped or starved, and nothing about the
    broker.
    """
    quiet_s: float = 0.2
    """Between two looks, and a silence from one to the next is broken by a ping."""
    hung_s: float = 0.5
    """How long the ping's answer may take."""
    greet_s: float = 0.3
    """How long a broker may take to greet a new connection."""
    same_s: float = 2.0
    """How long the answer may take where only the same broker would take a new connection: what it
    has not read of this one would be lost.
    """
    again_s: float = 0.3
    """Between two looks for a better broker."""
    longest_s: float = 4.0
    """Each broker that was left and turns out alive lets the next answer take twice as long, up to
    this.
    """


class Watched(Protocol):
    """A connection, as far as this module needs to know it; see BusClient."""

    @property
    def is_connected(self) -> bool: ...
    @property
    def heard(self) -> int: ...
    @property
    def addresses(self) -> Sequence[Address]: ...
    async def ask(self) -> None: ...
    async def leave(self, better: Address) -> None: ...


class HangWatch:
    """Looks after one connection; `run` it as long as the connection lasts."""

    def __init__(
        self,
        connection: Watched,
        tuning: HangTuning = HangTuning(),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._connection = connection
        self._tuning = tuning
        self._clock = clock
        self._sleep = sleep
        self._heard = -1
        self._pause_s = tuning.quiet_s
        self._silent_s = 0.0
        self._asked_s: float | None = None
        self._hung_s = tuning.hung_s

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            began_s, pause_s = self._clock(), self._pause_s
            await self._sleep(pause_s)
            slept_s = self._clock() - began_s
            self._pause_s = self._tuning.tick_s
            await self._look(slept_s, late=slept_s > pause_s + self._tuning.late_s)

    async def _look(self, slept_s: float, *, late: bool) -> None:
        if late or not self._connection.is_connected or self._connection.heard != self._heard:
            self._begin()
        else:
            self._silent_s += slept_s
            await self._break_silence()

    def _begin(self) -> None:
        self._heard = self._connection.heard
        self._silent_s, self._asked_s = 0.0, None
        self._pause_s = self._tuning.quiet_s

    async def _break_silence(self) -> None:
        """Only time in which this process was awake counts: an answer may lie in its socket."""
        if self._asked_s is None:
            self._asked_s = self._silent_s
            await self._connection.ask()
        elif self._waited_s >= self._hung_s:
            await self._leave_if_better()

    async def _leave_if_better(self) -> None:
        before = self._connection.heard
        better = await first_to_greet(self._connection.addresses, self._tuning.greet_s)
        if self._connection.heard != before or not self._connection.is_connected:
            self._begin()
            return
        same = better == self._connection.addresses[-1]
        if better is None or (same and self._waited_s < self._tuning.same_s):
            self._pause_s = self._tuning.again_s
        else:
            await self._leave(better)

    @property
    def _waited_s(self) -> float:
        return self._silent_s - (self._asked_s or 0.0)

    async def _leave(self, better: Address) -> None:
        left, address = self._connection.addresses[-1], f"{better[0]}:{better[1]}"
        log_.warning("bus.hung", silent_s=round(self._silent_s, 2), better=address)
        await self._connection.leave(better)
        self._begin()
        # One that greets at once is slow and does not hang: the next may take more time.
        slow = left != better and await first_to_greet([left], self._tuning.greet_s) is not None
        self._hung_s = self._hung_s if slow else self._tuning.hung_s / 2.0
        self._hung_s = min(2.0 * self._hung_s, self._tuning.longest_s)


async def first_to_greet(addresses: Sequence[Address], limit_s: float) -> Address | None:
    """The broker that answers a new connection first; None if none does within `limit_s`.

    The last address is the one that hangs: its broker counts only if no other answers.
    """
    asking = {asyncio.create_task(_greets(*each)): each for each in addresses}
    found: Address | None = None
    try:
        async with asyncio.timeout(limit_s):
            for answer in asyncio.as_completed(asking):
                if (address := await answer) is None:
                    continue
                found = address
                if address != addresses[-1]:
                    break
    except TimeoutError:
        pass
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    return found


async def _greets(host: str, port: int) -> Address | None:
    """A stopped broker's system accepts connections for it, so its own word is waited for."""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            if (await reader.read(len(_GREETING))).startswith(_GREETING[:1]):
                return host, port
        finally:
            writer.transport.abort()
    return None
