"""Talkers and vocoders in virtual time: the project's own engines, turn by turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from antiphon_bench.plan.costs import Costs, Curves, Slower
from antiphon_bench.plan.kernel import Action, Kernel, Seat, Station
from antiphon_bench.plan.models import NAME, Cache, PlannedCodec, PlannedModel, Unmeasured
from talker.engine import engine as talking
from talker.engine import scheduler
from talker.settings import TalkerSettings
from ttscommon.engine.contention import Contention
from ttscommon.engine.runtime import Finished, Runtime
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import StageName
from vocoder.engine import engine as vocoding
from vocoder.engine import scheduler as vocoder_scheduler
from vocoder.settings import VocoderSettings

# What a worker says of itself is so old at most: see ReporterTuning.
REPORT_S: Final = 0.4


# Settings that no variable changes: what a worker does that is started without any.
_TALKER: Final = TalkerSettings()
_VOCODER: Final = VocoderSettings()


@dataclass(frozen=True)
class TalkerSetup:
    """A talker's settings, by the names that it has them under. `policy`: see POLICIES."""

    slots: int = _TALKER.slots
    limits: scheduler.StepLimits = field(default_factory=scheduler.StepLimits)
    cache: Cache = field(default_factory=Cache)
    policy: scheduler.PolicyName = "online"

    @classmethod
    def of(cls, slots: int | None, batch: int | None, cache: Cache) -> TalkerSetup:
        """With `slots` streams, of which a step takes `batch`; None for a talker's own setting."""
        limits = scheduler.StepLimits(batch or _TALKER.batch_streams, _TALKER.batch_positions)
        return cls(slots or _TALKER.slots, limits, cache, _TALKER.policy)


@dataclass(frozen=True)
class VocoderSetup:
    """A vocoder's settings, by the names that it has them under."""

    slots: int = _VOCODER.slots
    limits: vocoder_scheduler.BatchLimits = field(default_factory=vocoder_scheduler.BatchLimits)

    @classmethod
    def of(cls, slots: int | None, frame_rate_hz: float) -> VocoderSetup:
        """With `slots` streams, None for a vocoder's own setting; steps are as it makes them of
        frames of that rate.
        """
        return cls(slots or _VOCODER.slots, _VOCODER.limits(frame_rate_hz))


@dataclass
class Clock:
    """An engine's own time: it runs ahead while a step is computed."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


OnEvent = Callable[["Worker", str, Any], object]


class Worker(ABC):
    """One process: an engine on a thread, and an edge to the bus.

    busy_s: processor or device time of the engine. used: slots that jobs have.
    """

    stage: StageName

    def __init__(
        self,
        setup: TalkerSetup | VocoderSetup,
        kernel: Kernel,
        seat: Seat,
        on_event: OnEvent,
        costs: Costs,
    ) -> None:
        node = seat.node
        self.slots, self.batch = setup.slots, setup.limits.streams
        self.name, self.node, self.home, self.place = seat.name, node, seat.home, seat.place
        self.edge = Station(kernel, node, name=seat.name)
        self.alive = True
        self.draining = False
        self.used = 0
        self.busy_s = 0.0
        self.born_s = kernel.now
        self._kernel = kernel
        self._on_event = on_event
        self._computes = costs.computes
        self._clock = Clock(kernel.now)
        self._ran_s = self._waited_s = 0.0
        self._slower_by = costs.slower.get(self.stage, Slower())
        self._stretch = self._slower = 1.0
        self._dice = Random(seat.name)
        self._told = self._turning = False
        self._events: list[tuple[str, Any]] = []
        self._open: set[str] = set()
        self._report: Replica | None = None
        self._reported_s = 0.0
        self._engine = self._make()
        self._engine.listen(self._events.extend)

    @abstractmethod
    def _make(self) -> Runtime[Any, Any]: ...

    @property
    def free(self) -> int:
        return self.slots - self.used if self.alive and not self.draining else 0

    @property
    def load(self) -> float:
        """The share of the slots that is taken."""
        return self.used / self.slots

    def tell(self, command: Action) -> None:
        """Give the engine a command, which it takes at its next turn."""
        command()
        self._told = True
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
            self._work(seconds * self._slower)
        else:
            self._clock.now += seconds
            self.busy_s += seconds

    def _think(self, seconds: float) -> None:
        """The engine's thread works, which is on a processor in any case."""
        self._work(seconds)

    def _work(self, seconds: float) -> None:
        self._clock.now += seconds * self._stretch
        self._waited_s += seconds * (self._stretch - 1.0)
        self._ran_s += seconds
        self.busy_s += seconds

    def _contention(self) -> Contention:
        return Contention(
            self._clock,
            read=lambda: (self._ran_s, self._waited_s),
        )

    def _turn(self) -> None:
        if not self.alive:
            return
        kernel, node = self._kernel, self.node
        self._clock.now, self._told = kernel.now, False
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
        self._turning = self._told or not self._engine.waits
        if self._turning:
            self._turn()


class TalkerWorker(Worker):
    """A talker."""

    stage: StageName = "talker"

    def __init__(
        self, curves: Curves, setup: TalkerSetup, kernel: Kernel, seat: Seat, on_event: OnEvent
    ) -> None:
        self._curves, self._setup = curves, setup
        super().__init__(setup, kernel, seat, on_event, curves.costs)

    def _make(self) -> talking.Engine:
        speech, setup = self._curves.costs.speech, self._setup
        model = PlannedModel(
            self._curves.talker,
            speech.frame_rate_hz,
            speech.chunks,
            self._sleep,
            self._think,
            setup.cache,
            speech.lag_frames,
        )
        self.engine = talking.Engine(
            model,
            slots=setup.slots,
            metrics=Unmeasured(),
            blocks=setup.cache.blocks,
            limits=setup.limits,
            policy=scheduler.POLICIES[setup.policy],
            clock=self._clock,
            contention=self._contention(),
        )
        return self.engine


class VocoderWorker(Worker):
    """A vocoder."""

    stage: StageName = "vocoder"

    def __init__(
        self, curves: Curves, setup: VocoderSetup, kernel: Kernel, seat: Seat, on_event: OnEvent
    ) -> None:
        self._curves, self._setup = curves, setup
        super().__init__(setup, kernel, seat, on_event, curves.costs)

    def _make(self) -> vocoding.Engine:
        speech = self._curves.costs.speech
        rate, lag_s = speech.frame_rate_hz, speech.lag_s
        codec = PlannedCodec(self._curves.vocoder, rate, lag_s, self._sleep, self._think)
        self.engine = vocoding.Engine(
            codec,
            slots=self._setup.slots,
            metrics=Unmeasured(),
            limits=self._setup.limits,
            clock=self._clock,
            contention=self._contention(),
        )
        return self.engine


__all__ = ["NAME", "REPORT_S", "Clock", "TalkerSetup", "TalkerWorker", "VocoderSetup", "Worker"]
