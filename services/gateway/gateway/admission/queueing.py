"""Requests that wait for room, and offline streams, which take the slots that others leave."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from gateway.admission.control import Capacity
from gateway.admission.peers import Peers
from ttscommon.wire.errors import AntiphonError, Overloaded

# One key leaves places to the others.
_SHARE: Final = 4

Ask = Callable[[], Overloaded | None]


@dataclass(frozen=True, eq=False)
class _Place:
    """One that waits. `objection`: why it may not start yet; raises what waiting does not mend."""

    tenant: str
    model: str
    objection: Ask
    called: asyncio.Future[None]


class WaitingRoom:
    """Of one gateway. `most`: that wait at once, of one key a quarter of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queue: list[_Place] = []
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._queue)

    async def wait(self, tenant: str, model: str, most_s: float, objection: Ask) -> bool:
        """Return when there is no objection, or after `most_s`; whether it had to wait.

        The first that came is asked first. Returns at once where as many wait as may.
        """
        if (not self._queue and objection() is None) or self._is_full(tenant):
            return False
        loop = asyncio.get_running_loop()
        place = _Place(tenant, model, objection, loop.create_future())
        self._queue.append(place)
        self._held[tenant] += 1
        self.room()  # those who came before are asked before it is
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(most_s):
                    await place.called
        finally:
            self._leave(place)
            loop.call_soon(self.room)  # by then it has taken what it was called for
        return True

    def room(self) -> None:
        """There may be room: call the first that may start. What holds one of a key and model back
        holds back those of the same behind it, so each is asked about once.
        """
        asked: set[tuple[str, str]] = set()
        for place in self._queue:
            if place.called.done():
                return  # it is about to take its room
            if (kind := (place.tenant, place.model)) in asked:
                continue
            asked.add(kind)
            if self._may_start(place):
                return

    def _may_start(self, place: _Place) -> bool:
        try:
            if place.objection() is not None:
                return False
        except AntiphonError as error:
            place.called.set_exception(error)
        else:
            place.called.set_result(None)
        return True

    def _is_full(self, tenant: str) -> bool:
        share = max(1, self._most // _SHARE)
        return len(self._queue) >= self._most or self._held[tenant] >= share

    def _leave(self, place: _Place) -> None:
        self._queue.remove(place)
        self._held[place.tenant] -= 1
        if not self._held[place.tenant]:
            del self._held[place.tenant]


class OfflineStreams:
    """One gateway's. `spare`: slots of a model that they leave free. is_short: whether listeners of
    a model have little left, so that none starts.

    pressed: called with a model and how many of its streams here are to give way, those that do
    already among them. tenants: whose they are.
    """

    def __init__(
        self,
        capacity: Capacity,
        peers: Peers,
        spare: int,
        is_short: Callable[[str], bool] = lambda model: False,
    ) -> None:
        self.tenants: Counter[str] = Counter()
        self.pressed: Callable[[str, int], None] = lambda model, count: None
        self._capacity = capacity
        self._peers = peers
        self._spare = spare
        self._is_short = is_short

    @property
    def held(self) -> dict[str, int]:
        """By model."""
        return {model: held for model, held in self._capacity.offline.items() if held}

    def room(self, model: str) -> int:
        """How many more may start here now. Gateways that see the same room leave some of it to one
        another, and the rest of it is there a moment later.
        """
        if self._is_short(model):
            return 0
        free = self._most(model) - self._held(model)
        return max(0, math.ceil(free / (1 + len(self._peers))))

    def heed(self, model: str) -> None:
        """A listener may have come, here or elsewhere: press out as many as are too many."""
        own = self._capacity.offline[model]
        if not own or not self._slots(model):
            return  # without workers there is nothing that others could take
        held = self._held(model)
        surplus = held - self._most(model)
        if surplus > 0:
            self.pressed(model, math.ceil(surplus * own / held))

    def stop(self, model: str) -> bool:
        """Press out all of a model; whether there were any here."""
        own = self._capacity.offline[model]
        if own:
            self.pressed(model, own)
        return own > 0

    @contextmanager
    def stream(self, model: str, tenant: str) -> Iterator[None]:
        """One runs."""
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
        """At all gateways together. One runs where no listener is, however few slots there are."""
        slots, busy = self._slots(model), self._capacity.capacity(model).busy
        return max(int(slots > 0 and not busy), slots - busy - self._spare)

    def _slots(self, model: str) -> int:
        view = self._capacity.capacity(model)
        return min(sum(one.slots for one in stage) for stage in (view.talkers, view.vocoders))
