"""Streams whose listeners do not hear them as they are made: they take the slots that others leave.

They are in no limit and in no share: to a listener at the door their slots are free. What is
admitted there presses them out, and the next slot is kept free for the one behind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gateway.admission.peers import Peers
from gateway.admission.terms import Capacity


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
