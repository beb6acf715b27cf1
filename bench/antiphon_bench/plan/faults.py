"""Losses of a fleet while it serves.

One is written `WHAT@SECONDS`: `talker@30`, `node@60`. It repeats with `/SECONDS`: `talker@60/60` is
a talker lost each minute.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from antiphon_bench.plan import PlanError
from antiphon_bench.plan.calls import Call, Pool
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.gateways import Gateway
from antiphon_bench.plan.workers import Worker

KINDS: Final = ("talker", "vocoder", "gateway", "broker", "node")


@dataclass(frozen=True)
class Event:
    """`what` of KINDS happens at `at_s`, and then every `every_s` where that is not 0."""

    what: str
    at_s: float
    every_s: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Event:
        """Raises PlanError."""
        what, _, when = text.partition("@")
        at, _, every = when.partition("/")
        if what not in KINDS:
            raise PlanError(f"{text!r}: nothing is called {what!r}; there are {', '.join(KINDS)}")
        try:
            found = cls(what, float(at), float(every or 0.0))
        except ValueError:
            raise PlanError(f"{text!r} is not WHAT@SECONDS or WHAT@SECONDS/SECONDS") from None
        if not 0.0 <= found.at_s < 1e9 or not 0.0 <= found.every_s < 1e9:
            raise PlanError(f"{text!r}: seconds are counted from the beginning")
        return found


class Faults:
    """Has events happen to a fleet. Which process it is follows from the seed."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet, self._kernel = fleet, fleet.kernel
        self._recovery = fleet.setup.curves.costs.recovery
        self._dice = random.Random(f"faults {seed}")
        self.lost: dict[str, int] = {}

    def schedule(self, events: Sequence[Event], until_s: float) -> None:
        """Nothing happens at `until_s` or later."""
        for event in events:
            at_s = event.at_s
            while at_s < until_s:
                self._kernel.at(at_s, self._of(event.what))
                if not event.every_s:
                    break
                at_s += event.every_s

    def _of(self, what: str) -> Callable[[], object]:
        found: dict[str, Callable[[], object]] = {
            "talker": partial(self._lose_any, self._fleet.talkers),
            "vocoder": partial(self._lose_any, self._fleet.vocoders),
            "gateway": self._lose_gateway,
            "broker": lambda: self._lose_this_broker(self._dice.randrange(self._fleet.bus.brokers)),
            "node": self._lose_node,
        }
        return found[what]

    def _count(self, kind: str) -> None:
        self.lost[kind] = self.lost.get(kind, 0) + 1

    def _lose_any(self, pool: Pool) -> None:
        if living := list(pool):
            self._lose_worker(self._dice.choice(living))

    def _lose_worker(self, worker: Worker) -> None:
        """It dies; its jobs go on elsewhere, and another is started in its place."""
        self._count(worker.stage)
        worker.die()
        self._kernel.after(self._recovery.takeover_s, partial(self._hand_on, worker))
        self._start(worker.stage, worker.place)

    def _start(self, kind: str, place: int) -> None:
        """Its start takes a core of the machine, and as much longer as others have that."""
        node, now = self._fleet.nodes[place % len(self._fleet.nodes)], self._kernel.now
        took_s = self._recovery.start_s[kind] * node.stretch(now)
        node.computing += 1

        def started() -> None:
            node.computing -= 1
            self._fleet.add(kind, place)

        self._kernel.after(took_s, started)

    def _hand_on(self, worker: Worker) -> None:
        """Those whose listeners have least to play go first."""
        now = self._kernel.now
        calls = [
            call for call in self._fleet.calls.values() if worker in (call.talker, call.vocoder)
        ]
        calls.sort(key=lambda call: call.account.slack_s(now))
        for call in reversed(calls):  # each is put in front of the queue
            self._fleet.hand_on(call, worker)

    def _lose_gateway(self) -> None:
        living = [gateway for gateway in self._fleet.gateways if gateway.alive]
        if living:
            self._lose_this_gateway(self._dice.choice(living))

    def _lose_this_gateway(self, gateway: Gateway) -> None:
        self._count("gateway")
        gateway.alive = False
        for call in [c for c in self._fleet.calls.values() if c.gateway is gateway]:
            self._kernel.after(self._recovery.resume_s, partial(self._resume, call))
        self._start("gateway", gateway.place)

    def _resume(self, call: Call) -> None:
        """The client asks another gateway; while there is none it tries again."""
        if not call.over and not self._fleet.adopt(call):
            self._kernel.after(self._recovery.resume_s, partial(self._resume, call))

    def _lose_this_broker(self, index: int) -> None:
        """Its processes find another one; alone, it has to start again first. Where it led the
        queues, new jobs wait until others have elected a leader.
        """
        self._count("broker")
        fleet, recovery, now = self._fleet, self._recovery, self._kernel.now
        brokers = fleet.bus.brokers
        away_s = recovery.reconnect_s + (recovery.start_s["broker"] if brokers == 1 else 0.0)
        fleet.bus.back_s[index] = max(fleet.bus.back_s[index], now + away_s)
        if brokers > 1 and self._dice.randrange(brokers) == index:
            fleet.bus.queues_back_s = now + recovery.elect_s

    def _lose_node(self) -> None:
        """Every process of a node dies; they start again where there is room."""
        fleet = self._fleet
        index = self._dice.randrange(len(fleet.nodes))
        node = fleet.nodes[index]
        self._count("node")
        for worker in [*fleet.talkers, *fleet.vocoders]:
            if worker.node is node:
                self._lose_worker(worker)
        for gateway in fleet.gateways:
            if gateway.node is node and gateway.alive:
                self._lose_this_gateway(gateway)
        if index < fleet.bus.brokers:
            self._lose_this_broker(index)
