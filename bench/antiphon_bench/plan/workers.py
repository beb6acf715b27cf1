"""Talkers and vocoders in virtual time: the project's own engines, turn by turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from antiphon_bench.plan.costs import Slower
from antiphon_bench.plan.kernel import Action, Kernel, Seat, Station
from antiphon_bench.plan.models import PlannedCodec, PlannedModel, Unmeasured
from antiphon_bench.plan.shapes import TALKER, Setup, TalkerSetup, VocoderSetup
from talker.engine import engine as talking
from talker.engine.scheduler import POLICIES
from ttscommon.engine.contention import Contention
from ttscommon.engine.runtime import Finished, Runtime
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import StageName
from vocoder.engine import engine as vocoding

# What a worker says of itself is so old at most: see ReporterTuning.
REPORT_S: Final = 0.4


@dataclass
class Clock:
    """An engine's own time: it runs ahead while a step is computed."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


OnEvent = Callable[[Any, str, Any], object]


class Worker(ABC):
    """One process: an engine on a thread, and an edge to the bus.

    busy_s: processor or device time of the engine. used: slots that jobs have.
    """

    stage: StageName

    def __init__(self, setup: Setup, kernel: Kernel, seat: Seat, on_event: OnEvent) -> None:
        own: TalkerSetup | VocoderSetup = getattr(setup, self.stage)
        costs = setup.curves.costs
        self.slots, self.batch = own.slots, own.limits.streams
        self.name, self.node = seat.name, seat.node
        self.edge = Station(kernel, seat.node, name=seat.name)
        self.alive = True
        self.used = 0
        self.busy_s = 0.0
        self._kernel = kernel
        self._on_event = on_event
        self._computes = costs.computes
        self._clock = Clock(kernel.now)
        self._ran_s = self._waited_s = 0.0
        self._slower_by = costs.slower.get(self.stage, Slower())
        self._stretch = self._slower = 1.0
        self._dice = Random(seat.name)
        self._notified = self._turning = False
        self._events: list[tuple[str, Any]] = []
        self._open: set[str] = set()
        self._report: Replica | None = None
        self._reported_s = 0.0
        contention = Contention(self._clock, read=lambda: (self._ran_s, self._waited_s))
        self._engine = self._make(setup, contention)
        self._engine.listen(self._events.extend)

    @abstractmethod
    def _make(self, setup: Setup, contention: Contention) -> Runtime[Any, Any]: ...

    @property
    def free(self) -> int:
        return self.slots - self.used if self.alive else 0

    @property
    def load(self) -> float:
        """The share of the slots that is taken."""
        return self.used / self.slots

    def tell(self, command: Action) -> None:
        """Give the engine a command, which it takes at its next turn."""
        command()
        self._notified = True
        if not self._turning:
            self._turning = True
            self._kernel.at(self._kernel.now, self._turn)

    def opened(self, key: str, command: Action) -> None:
        """Have the engine open a stream."""
        self._open.add(key)
        self.tell(command)

    def cancel(self, key: str) -> bool:
        """Have the engine close a stream; False where it has none of that key."""
        if not self.alive or key not in self._open:
            return False
        self._open.remove(key)
        self.tell(partial(self._engine.cancel, key))
        return True

    def playback(self, key: str, start_s: float) -> None:
        self.tell(partial(self._engine.playback, key, start_s))

    def die(self) -> None:
        """The process is gone, and with it what it was doing."""
        self.alive = False

    def report(self, queued: int) -> Replica:
        """What gateways know of it."""
        now = self._kernel.now
        if self._report is None or now - self._reported_s >= REPORT_S:
            self._report, self._reported_s = self._replica(queued), now
        return self._report

    def _replica(self, queued: int) -> Replica:
        engine: Any = self._engine
        kv_free, kv_positions = engine.kv_positions
        return Replica(
            self.name,
            self.stage,
            (),
            self.slots,
            self.free,
            batch=self.batch,
            queued=queued,
            step_s=engine.step_seconds,
            frame_s=engine.frame_seconds,
            kv_free=kv_free,
            kv_positions=kv_positions,
            slowed=engine.slowed,
        )

    def _sleep(self, seconds: float) -> None:
        """The engine computes for so long, or longer beside others; a device computes alone."""
        if self._computes:
            self._think(seconds * self._slower)
        else:
            self._clock.now += seconds
            self.busy_s += seconds

    def _think(self, seconds: float) -> None:
        """The engine's thread works, which is on a processor in any case."""
        self._clock.now += seconds * self._stretch
        self._waited_s += seconds * (self._stretch - 1.0)
        self._ran_s += seconds
        self.busy_s += seconds

    def _turn(self) -> None:
        if not self.alive:
            return
        kernel, node = self._kernel, self.node
        self._clock.now, self._notified = kernel.now, False
        waits = node.stretch(kernel.now) - 1.0
        self._stretch = 1.0 + waits * self._dice.expovariate(1.0)
        if self._computes:
            self._slower = self._slower_by.at(node.crowding(kernel.now))
            node.computing += 1
        self._engine.step()
        events = self._events[:]
        self._events.clear()
        kernel.at(self._clock.now, partial(self._turned, events))

    def _turned(self, events: Sequence[tuple[str, Any]]) -> None:
        if self._computes:
            self.node.computing -= 1
        if not self.alive:
            return
        for key, event in events:
            if isinstance(event, Finished):
                self._open.discard(key)
            self._on_event(self, key, event)
        self._turning = self._notified or not self._engine.waits
        if self._turning:
            self._turn()


class TalkerWorker(Worker):
    """A talker."""

    stage: StageName = "talker"

    def _make(self, setup: Setup, contention: Contention) -> talking.Engine:
        own = setup.talker
        self.engine = talking.Engine(
            PlannedModel(setup.curves, own.cache, self._sleep, self._think),
            slots=own.slots,
            metrics=Unmeasured(),
            blocks=own.cache.blocks,
            limits=own.limits,
            policy=POLICIES[TALKER.policy],
            clock=self._clock,
            contention=contention,
        )
        return self.engine


class VocoderWorker(Worker):
    """A vocoder."""

    stage: StageName = "vocoder"

    def _make(self, setup: Setup, contention: Contention) -> vocoding.Engine:
        self.engine = vocoding.Engine(
            PlannedCodec(setup.curves, self._sleep, self._think),
            slots=setup.vocoder.slots,
            metrics=Unmeasured(),
            limits=setup.vocoder.limits,
            clock=self._clock,
            contention=contention,
        )
        return self.engine
