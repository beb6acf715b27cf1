"""Talkers and vocoders in virtual time: the project's own engines, turn by turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final, Generic, TypeVar

from antiphon_bench.plan.costs import Setup, Slower
from antiphon_bench.plan.kernel import Action, Kernel, Node, Station
from antiphon_bench.plan.models import PlannedCodec, PlannedModel, Unmeasured
from talker.engine import engine as talking
from talker.engine.scheduler import POLICIES
from ttscommon.engine.pace import Contention
from ttscommon.engine.runtime import Finished, Runtime
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import StageName
from vocoder.engine import engine as vocoding

# What a worker says of itself is so old at most: see ReporterTuning.
REPORT_S: Final = 0.4

E = TypeVar("E", bound=Runtime[Any, Any])
OnEvent = Callable[[Any, str, Any], object]


class Worker(Generic[E]):
    """One process: an engine on a thread, and an edge to the bus.

    busy_s: processor or device time of the engine. used: slots that jobs have.
    """

    def __init__(
        self,
        setup: Setup,
        stage: StageName,
        make: Callable[[Worker[Any]], E],
        kernel: Kernel,
        name: str,
        node: Node,
        on_event: OnEvent,
    ) -> None:
        self.setup, self.name, self.node = setup, name, node
        self.settings = setup.talker if stage == "talker" else setup.vocoder
        costs = setup.curves.costs
        self.edge = Station(kernel, node, name=name)
        self.alive = True
        self.used = 0
        self.busy_s = 0.0
        self._stage = stage
        self._kernel = kernel
        self._on_event = on_event
        self._computes = costs.computes
        self._now_s = kernel.now  # the engine's own time: it runs ahead while a step is computed
        self._ran_s = self._waited_s = 0.0
        self._slower_by = costs.slower.get(stage, Slower())
        self._stretch = self._slower = 1.0
        self._dice = Random(name)
        self._notified = self._turning = False
        self._events: list[tuple[str, Any]] = []
        self._open: set[str] = set()
        self._report: Replica | None = None
        self._reported_s = 0.0
        self.contention = Contention(self.clock, read=lambda: (self._ran_s, self._waited_s))
        self.engine = make(self)
        self.engine.listen(self._events.extend)

    @property
    def free(self) -> int:
        return self.settings.slots - self.used if self.alive else 0

    @property
    def load(self) -> float:
        """The share of the slots that is taken."""
        return self.used / self.settings.slots

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
        self.tell(partial(self.engine.cancel, key))
        return True

    def playback(self, key: str, start_s: float) -> None:
        self.tell(partial(self.engine.playback, key, start_s))

    def report(self, queued: int) -> Replica:
        """What gateways know of it."""
        now = self._kernel.now
        if self._report is None or now - self._reported_s >= REPORT_S:
            self._report, self._reported_s = self._replica(queued), now
        return self._report

    def _replica(self, queued: int) -> Replica:
        engine: Any = self.engine
        kv_free, kv_positions = engine.kv_positions
        return Replica(
            self.name,
            self._stage,
            (),
            self.settings.slots,
            self.free,
            batch=self.settings.batch_streams,
            queued=queued,
            step_s=engine.step_seconds,
            frame_s=engine.frame_seconds,
            kv_free=kv_free,
            kv_positions=kv_positions,
            slowed=engine.slowed,
        )

    def clock(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        """The engine computes for so long, or longer beside others; a device computes alone."""
        if self._computes:
            self.think(seconds * self._slower)
        else:
            self._now_s += seconds
            self.busy_s += seconds

    def think(self, seconds: float) -> None:
        """The engine's thread works, which is on a processor in any case."""
        self._now_s += seconds * self._stretch
        self._waited_s += seconds * (self._stretch - 1.0)
        self._ran_s += seconds
        self.busy_s += seconds

    def _turn(self) -> None:
        if not self.alive:
            return
        kernel, node = self._kernel, self.node
        self._now_s, self._notified = kernel.now, False
        waits = node.stretch(kernel.now) - 1.0
        self._stretch = 1.0 + waits * self._dice.expovariate(1.0)
        if self._computes:
            self._slower = self._slower_by.at(node.crowding(kernel.now))
            node.computing += 1
        self.engine.step()
        events = self._events[:]
        self._events.clear()
        kernel.at(self._now_s, partial(self._turned, events))

    def _turned(self, events: Sequence[tuple[str, Any]]) -> None:
        if self._computes:
            self.node.computing -= 1
        if not self.alive:
            return
        for key, event in events:
            if isinstance(event, Finished):
                self._open.discard(key)
            self._on_event(self, key, event)
        self._turning = self._notified or not self.engine.waits
        if self._turning:
            self._turn()


def talker_engine(on: Worker[Any]) -> talking.Engine:
    """A talker's, of a model that takes the time of its curve."""
    setup, blocks = on.setup, on.setup.talker.kv_blocks or 0
    return talking.Engine(
        PlannedModel(setup.curves, setup.prompt if blocks else 0, on.sleep, on.think),
        slots=setup.talker.slots,
        metrics=Unmeasured(),
        blocks=blocks,
        limits=setup.talker_limits,
        policy=POLICIES[setup.talker.policy],
        clock=on.clock,
        contention=on.contention,
    )


def vocoder_engine(on: Worker[Any]) -> vocoding.Engine:
    """A vocoder's."""
    return vocoding.Engine(
        PlannedCodec(on.setup.curves, on.sleep, on.think),
        slots=on.setup.vocoder.slots,
        metrics=Unmeasured(),
        limits=on.setup.vocoder_limits,
        clock=on.clock,
        contention=on.contention,
    )
