"""Requests that wait for room, and offline streams, which take the slots that others leave."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.admission.control import Capacity
from gateway.admission.peers import Peers
from ttscommon.wire.errors import AntiphonError, Overloaded

# One key leaves places to the others.
_SHARE: Final = 4

Objection: TypeAlias = Callable[[], Overloaded | None]


@dataclass(frozen=True, eq=False)
class _Waiter:
    """A request that waits. `objection`: why it may not start yet; raises what waiting does not
    mend.
    """

    tenant: str
    model: str
    objection: Objection
    called: asyncio.Future[None]


class WaitingRoom:
    """The requests that wait at one gateway: `most` at once, a quarter of them of one key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queue: list[_Waiter] = []
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._queue)

    async def wait(self, tenant: str, model: str, most_s: float, objection: Objection) -> bool:
        """Wait until there is no objection, for `most_s` at most. Returns whether it had to.

        Requests are called in the order in which they came. One that comes when as many wait as may
        does not wait.
        """
        if (not self._queue and objection() is None) or self._is_full(tenant):
            return False
        loop = asyncio.get_running_loop()
        waiter = _Waiter(tenant, model, objection, loop.create_future())
        self._queue.append(waiter)
        self._held[tenant] += 1
        self.call_next()  # requests that came before are asked before it is
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(most_s):
                    await waiter.called
        finally:
            self._leave(waiter)
            loop.call_soon(self.call_next)  # by then it has taken what it was called for
        return True

    def call_next(self) -> None:
        """There may be room: call the first request that may start. Of each key and model only the
        first is asked: what holds it back holds back those behind it.
        """
        asked: set[tuple[str, str]] = set()
        for waiter in self._queue:
            if waiter.called.done():
                return  # it is about to take its room
            if (kind := (waiter.tenant, waiter.model)) in asked:
                continue
            asked.add(kind)
            if self._called(waiter):
                return

    def _called(self, waiter: _Waiter) -> bool:
        """Call a request if it may start, or can never; returns whether it was called."""
        try:
            if waiter.objection() is not None:
                return False
        except AntiphonError as error:
            waiter.called.set_exception(error)
        else:
            waiter.called.set_result(None)
        return True

    def _is_full(self, tenant: str) -> bool:
        share = max(1, self._most // _SHARE)
        return len(self._queue) >= self._most or self._held[tenant] >= share

    def _leave(self, waiter: _Waiter) -> None:
        self._queue.remove(waiter)
        self._held[waiter.tenant] -= 1
        if not self._held[waiter.tenant]:
            del self._held[waiter.tenant]


class OfflineStreams:
    """Streams of one gateway that no listener hears as they are made.

    `spare`: slots of a model that they leave free. is_short: whether listeners of a model have
    little left, so that no offline stream starts. give_way: called with a model and how many of its
    streams here are to give way, those that do already among them. tenants: whose streams they are.
    """

    def __init__(
        self,
        capacity: Capacity,
        peers: Peers,
        spare: int,
        is_short: Callable[[str], bool] = lambda model: False,
    ) -> None:
        self.tenants: Counter[str] = Counter()
        self.give_way: Callable[[str, int], None] = lambda model, count: None
        self._capacity = capacity
        self._peers = peers
        self._spare = spare
        self._is_short = is_short

    @property
    def held(self) -> dict[str, int]:
        """How many run here, by model."""
        return {model: held for model, held in self._capacity.offline.items() if held}

    def room(self, model: str) -> int:
        """How many more may start here now. Gateways that see the same room leave some of it to one
        another, and the rest of it is there a moment later.
        """
        if self._is_short(model):
            return 0
        free = self._most(model) - self._held(model)
        return max(0, math.ceil(free / (1 + len(self._peers))))

    def make_room(self, model: str) -> None:
        """A listener may have come, here or elsewhere: as many as are too many give way."""
        own = self._capacity.offline[model]
        if not own or not self._slots(model):
            return  # without workers there is nothing that others could take
        held = self._held(model)
        surplus = held - self._most(model)
        if surplus > 0:
            self.give_way(model, math.ceil(surplus * own / held))

    def give_way_all(self, model: str) -> bool:
        """All of a model give way; returns whether there were any here."""
        own = self._capacity.offline[model]
        if own:
            self.give_way(model, own)
        return own > 0

    @contextmanager
    def stream(self, model: str, tenant: str) -> Iterator[None]:
        """Count one that runs."""
        self._capacity.offline[model] += 1
        self.tenants[tenant] += 1
        try:
            yield
        finally:
            self._capacity.offline[model] -= 1
            self.tenants[tenant] -= 1

    def _held(self, model: str) -> int:
        return self._capacity.offline[model] + self._peers.offline(model)

    def _most(self, model: str) -> int:
        """How many may run at all gateways together: one at least where there is no listener,
        however few slots there are.
        """
        slots, busy = self._slots(model), self._capacity.capacity(model).busy
        return max(int(slots > 0 and not busy), slots - busy - self._spare)

    def _slots(self, model: str) -> int:
        view = self._capacity.capacity(model)
        return min(sum(one.slots for one in stage) for stage in (view.talkers, view.vocoders))
