"""A request's way between processes: the bus, through a talker and a vocoder."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic

from antiphon_bench.plan import PlanError
from antiphon_bench.plan.costs import Costs, Edge, Setup
from antiphon_bench.plan.gateways import Call
from antiphon_bench.plan.kernel import Action, Kernel, Node, Station
from antiphon_bench.plan.models import SAMPLES, PlannedRequest, frames_of
from antiphon_bench.plan.workers import E, Worker, talker_engine, vocoder_engine
from talker.engine import engine as talking
from talker.engine.stream import ChunkReady
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import StageName
from vocoder.engine import engine as vocoding
from vocoder.engine.stream import DecodedAudio


class Bus:
    """All brokers of a deployment, which share the work."""

    def __init__(self, kernel: Kernel, node: Node, costs: Costs, brokers: int) -> None:
        self.brokers = brokers
        self._kernel = kernel
        self._costs = costs
        self._station = Station(kernel, node, servers=brokers, name="bus")
        self._hops = Station(kernel, node, name="hops")

    @property
    def worked_s(self) -> float:
        """Processor time of one of them."""
        return self._station.worked_s / self.brokers

    def hop(self, then: Action) -> None:
        """A message goes from one process to another, whose threads wait for a processor."""
        self._kernel.after(self._costs.hop_s * self._hops.stretch(), then)

    def publish(self, share: float, sound_s: float, then: Action) -> None:
        """A message: for a `share` of what a request costs, or of so much sound, which passes
        twice: as codes and as samples.
        """
        cost = self._costs.broker
        work_s = cost.request_s * share + cost.sound_s * sound_s / 2
        self._station.serve(work_s, partial(self.hop, then))


class Ground:
    """What all parts of a deployment stand on: time, machines, bus. `calls`: under way, by key."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.costs = setup, setup.curves.costs
        self.kernel = Kernel()
        shape = setup.shape
        cores = shape.cores if shape.nodes else math.inf
        self.nodes = [Node(cores) for _ in range(max(1, shape.nodes))]
        self.bus = Bus(self.kernel, self.nodes[0], self.costs, shape.brokers)
        clients = 0.0 if shape.listeners is None else shape.listeners.idle
        self.nodes[0].idle += shape.brokers * self.costs.broker.idle + clients + shape.beside
        self.calls: dict[str, Call] = {}

    def seconds(self, frames: float) -> float:
        return frames / self.costs.speech.frame_rate_hz


class StageSide(ABC, Generic[E]):
    """One stage: its workers, its queue, and a job's way through a worker.

    A job goes to the worker with the smallest share of its slots taken.
    """

    name: StageName

    def __init__(self, ground: Ground, make: Callable[[Worker[Any]], E]) -> None:
        """`make`: an engine on a worker."""
        self._ground, self._make = ground, make
        self._edge: Edge = getattr(ground.costs, self.name)
        self.workers: list[Worker[E]] = []
        self.waiting: deque[Call] = deque()
        self.most_waiting = 0

    @abstractmethod
    def _begin(self, worker: Worker[E], call: Call) -> None:
        """The job has a slot of the worker."""

    @abstractmethod
    def _start(self, worker: Worker[E], call: Call) -> None:
        """Open its stream behind what is in the logs."""

    @abstractmethod
    def _made(self, call: Call, worker: Worker[E], count: int) -> None:
        """So many frames or samples of a request leave the worker; 0: there are no more."""

    @abstractmethod
    def _count(self, event: object) -> tuple[int, float]:
        """What an event has more of a request, and that in frames; 0 of other events."""

    def feed(self, call: Call) -> None:
        """Give its worker what is new."""

    def __iter__(self) -> Iterator[Worker[E]]:
        """The workers that live."""
        return (worker for worker in self.workers if worker.alive)

    def add(self, name: str, node: Node) -> None:
        """A worker starts, and serves at once."""
        ground = self._ground
        on = (ground.setup, self.name, self._make, ground.kernel, name, node)
        self.workers.append(Worker(*on, self._on_event))
        self._assign()

    def submit(self, call: Call, *, first: bool = False) -> None:
        """Queue a job, in front of the others if it was begun before."""
        if call.over:
            return
        if first:
            self.waiting.appendleft(call)
        else:
            self.waiting.append(call)
        self._assign()

    def give_up(self, call: Call) -> None:
        """Its listener does not want the job any more, wherever it is."""
        worker: Worker[E] | None = getattr(call, self.name)
        if not self.withdraw(call) and worker is not None and worker.cancel(call.key):
            self._release(worker)

    def withdraw(self, call: Call) -> bool:
        """Take a job out of the queue; False if a worker has it."""
        if call not in self.waiting:
            return False
        self.waiting.remove(call)
        return True

    def reports(self) -> tuple[Replica, ...]:
        """What gateways know of the workers."""
        queued = len(self.waiting)
        return tuple(worker.report(queued) for worker in self)

    def _release(self, worker: Worker[E]) -> None:
        """A job of the worker's has ended."""
        worker.used -= 1
        self._assign()

    def _assign(self) -> None:
        """Give out what waits, as long as there is a slot."""
        while self.waiting:
            free = [worker for worker in self if worker.free > 0]
            if not free:
                self.most_waiting = max(self.most_waiting, len(self.waiting))
                return
            worker = min(free, key=lambda one: one.load)
            worker.used += 1
            self._begin(worker, self.waiting.popleft())

    def _open(self, worker: Worker[E], call: Call) -> None:
        if not worker.alive:
            return
        if call.over or getattr(call, self.name) is not worker:
            self._release(worker)
            return
        self._start(worker, call)
        if not call.silent:
            first_s = call.account.first_at_s
            worker.playback(call.key, self._ground.kernel.now if first_s is None else first_s)
        self.feed(call)

    def _on_event(self, worker: Worker[E], key: str, event: object) -> None:
        """An event of an engine. Raises PlanError."""
        call = self._ground.calls.get(key)
        if isinstance(event, Finished):
            self._release(worker)
        if call is None or getattr(call, self.name) is not worker:
            return
        if isinstance(event, Failed):
            raise PlanError(f"a {self.name} failed: {event.error}") from event.error
        if isinstance(event, Finished):
            worker.edge.serve(self._edge.request_s / 2, partial(self._made, call, worker, 0))
            return
        count, frames = self._count(event)
        if count:
            work_s = self._edge.sound_s * self._ground.seconds(frames)
            worker.edge.serve(work_s, partial(self._made, call, worker, count))


class TalkerSide(StageSide[talking.Engine]):
    """Until a request's frames are in the codec log."""

    name: StageName = "talker"

    def __init__(self, ground: Ground, vocoding: VocoderSide) -> None:
        super().__init__(ground, talker_engine)
        self._vocoding = vocoding

    def _begin(self, worker: Worker[talking.Engine], call: Call) -> None:
        call.talker = worker
        ground, reading = self._ground, self._ground.costs.reading
        read_s = ground.costs.read_s * worker.edge.stretch()
        spent_s = reading.request_s + reading.sound_s * ground.seconds(call.frames)
        worker.node.worked(spent_s, ground.kernel.now)
        opened = partial(self._open, worker, call)
        worker.edge.serve(self._edge.request_s / 2, lambda: ground.kernel.after(read_s, opened))
        if not call.asked:
            call.asked = True
            ground.bus.publish(0.0, 0.0, partial(self._vocoding.submit, call))

    def _start(self, worker: Worker[talking.Engine], call: Call) -> None:
        restored = frames_of(call.committed) if call.committed else None
        prepared = PlannedRequest(call.request)
        begin = partial(worker.engine.open, prepared, restored, (call.frames,), final=True)
        worker.opened(call.key, begin)

    def _count(self, event: object) -> tuple[int, float]:
        frames = len(event.arrays["codes"]) if isinstance(event, ChunkReady) else 0
        return frames, frames

    def _made(self, call: Call, worker: Worker[talking.Engine], count: int) -> None:
        """The next frames of a request, or its end, are in the log."""
        if not worker.alive or call.over or call.talker is not worker:
            return
        call.committed += count
        call.whole = call.whole or not count
        if count:
            worker.tell(lambda: worker.engine.acknowledge(call.key))
        logged = partial(self._vocoding.feed, call)
        self._ground.bus.publish(0.0, self._ground.seconds(count), logged)


class VocoderSide(StageSide[vocoding.Engine]):
    """Until a request's sound leaves the bus."""

    name: StageName = "vocoder"

    def __init__(self, ground: Ground, heard: Callable[[Call, int], object]) -> None:
        """`heard`: so many samples of a request are at its gateway; 0: there are no more."""
        super().__init__(ground, vocoder_engine)
        self._heard = heard

    def _begin(self, worker: Worker[vocoding.Engine], call: Call) -> None:
        call.vocoder, call.fed, call.finishing = worker, -1, False
        worker.edge.serve(self._edge.request_s / 2, partial(self._open, worker, call))

    def _start(self, worker: Worker[vocoding.Engine], call: Call) -> None:
        """With what the log has by now."""
        worker.opened(call.key, partial(worker.engine.open, call.request))
        call.fed = 0

    def feed(self, call: Call) -> None:
        """Give the vocoder what the log has and it has not."""
        worker = call.vocoder
        if call.over or worker is None or not worker.alive or call.fed < 0 or call.finishing:
            return
        engine = worker.engine
        if (more := call.committed - call.fed) > 0:
            call.fed = call.committed
            worker.tell(lambda: engine.feed(call.key, frames_of(more)))
        if call.whole:
            call.finishing = True
            worker.tell(lambda: engine.finish(call.key))

    def _count(self, event: object) -> tuple[int, float]:
        samples = len(event.pcm) if isinstance(event, DecodedAudio) else 0
        return samples, samples / SAMPLES

    def _made(self, call: Call, worker: Worker[vocoding.Engine], count: int) -> None:
        """Sound, or its end, on its way to the gateway."""
        seconds, share = self._ground.seconds(count / SAMPLES), 0.0 if count else 0.5
        self._ground.bus.publish(share, seconds, lambda: self._heard(call, count))
