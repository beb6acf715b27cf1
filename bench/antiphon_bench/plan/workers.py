"""Talkers and vocoders in virtual time: the project's own engines, turn by turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final

from antiphon_bench.plan.costs import Setup, Slower
from antiphon_bench.plan.kernel import Action, Kernel, Node, Station
from antiphon_bench.plan.models import PlannedCodec, PlannedModel, Sleep, Unmeasured
from talker.engine import engine as talking
from talker.engine.scheduler import POLICIES
from ttscommon.cluster.reporter import ReporterTuning
from ttscommon.engine.pace import Contention
from ttscommon.engine.runtime import Finished
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import StageName
from vocoder.engine import engine as vocoding

_REPORT_S: Final = ReporterTuning().report_s

OnEvent = Callable[["Worker", str, Any], object]


class Worker:
    """One process: an engine on a thread, and an edge to the bus.

    busy_s: processor or device time of the engine. used: slots that jobs have.
    """

    def __init__(
        self, setup: Setup, kernel: Kernel, stage: StageName, name: str, node: Node, heard: OnEvent
    ) -> None:
        """`heard`: gets the engine's events."""
        costs = setup.curves.costs
        self.name, self.node, self.edge = name, node, Station(kernel, node, name=name)
        self.settings = setup.talker if stage == "talker" else setup.vocoder
        self.alive = True
        self.used = 0
        self.busy_s = 0.0
        self._stage, self._kernel, self._heard = stage, kernel, heard
        self._computes, self._slower_by = costs.computes, costs.slower.get(stage, Slower())
        self._now_s = kernel.now  # the engine's own time: it runs ahead while a step is computed
        self._ran_s = self._waited_s = 0.0
        self._stretch = self._slower = 1.0
        self._dice = Random(name)
        self._notified = self._turning = False
        self._events: list[tuple[str, Any]] = []
        self._open: set[str] = set()
        self._report: Replica | None = None
        self._reported_s = 0.0
        clock, engine = lambda: self._now_s, _talker if stage == "talker" else _vocoder
        contention = Contention(clock, read=lambda: (self._ran_s, self._waited_s))
        common = {"metrics": Unmeasured(), "clock": clock, "contention": contention}
        self.engine: Any = engine(setup, self._sleep, self._think, common)
        self.engine.listen(self._events.extend)

    @property
    def free(self) -> int:
        return self.settings.slots - self.used if self.alive else 0

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
        """What gateways know of it: its last report."""
        now, engine = self._kernel.now, self.engine
        if self._report is None or now - self._reported_s >= _REPORT_S:
            self._reported_s = now
            self._report = Replica(
                *(self.name, self._stage, (), self.settings.slots, self.free),
                batch=self.settings.batch_streams,
                queued=queued,
                step_s=engine.step_seconds,
                frame_s=engine.frame_seconds,
                slowed=engine.slowed,
            )
        return self._report

    def _sleep(self, seconds: float) -> None:
        """The engine computes for so long, or longer beside others; a device computes alone."""
        if self._computes:
            self._think(seconds * self._slower)
        else:
            self._now_s += seconds
            self.busy_s += seconds

    def _think(self, seconds: float) -> None:
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
        self.engine.step(wait=False)
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
            self._heard(self, key, event)
        self._turning = self._notified or not self.engine.waits
        if self._turning:
            self._turn()
        elif self.engine.streams:
            self._kernel.after(self.engine.wait_s, partial(self._look_again, self._now_s))

    def _look_again(self, since_s: float) -> None:
        """Of an engine that found nothing to do: it waits no longer for a command."""
        if self._now_s == since_s:
            self.tell(lambda: None)


def _talker(setup: Setup, sleep: Sleep, think: Sleep, common: dict[str, Any]) -> talking.Engine:
    model, settings = PlannedModel(setup.curves, sleep, think), setup.talker
    company = settings.limits.company if setup.curves.costs.computes else 0  # see Engine
    limits = replace(settings.limits, company=company)
    slots, policy = settings.slots, POLICIES[settings.policy]
    return talking.Engine(model, slots=slots, limits=limits, policy=policy, **common)


def _vocoder(setup: Setup, sleep: Sleep, think: Sleep, common: dict[str, Any]) -> vocoding.Engine:
    codec, slots = PlannedCodec(setup.curves, sleep, think), setup.vocoder.slots
    limits = setup.vocoder.limits(setup.curves.costs.speech.frame_rate_hz)
    return vocoding.Engine(codec, slots=slots, limits=limits, **common)
