"""A request's way through a talker and a vocoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from functools import partial

from antiphon_bench.plan import PlanError
from antiphon_bench.plan.costs import Edge
from antiphon_bench.plan.gateways import Call, World
from antiphon_bench.plan.kernel import Node
from antiphon_bench.plan.models import SAMPLES, frames_of
from antiphon_bench.plan.workers import Worker
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import StageName
from ttsfamilies.base.talker.streams import Taken
from ttsfamilies.fake.talker import FakePrepared
from vocoder.engine.stream import DecodedAudio


class StageSide(ABC):
    """One stage: its workers, its queue, and a job's way through the worker with most room."""

    name: StageName
    per_frame = 1

    def __init__(self, fleet: World) -> None:
        self._fleet = fleet
        self._edge: Edge = getattr(fleet.costs, self.name)
        self.workers: list[Worker] = []
        self.waiting: deque[Call] = deque()
        self.most_waiting = 0

    @abstractmethod
    def _begin(self, worker: Worker, call: Call) -> None:
        """The job has a slot of the worker."""

    @abstractmethod
    def _start(self, worker: Worker, call: Call) -> None:
        """Open its stream behind what is in the logs."""

    @abstractmethod
    def _made(self, call: Call, worker: Worker, count: int) -> None:
        """So many frames or samples of a request leave the worker; 0: there are no more."""

    def __iter__(self) -> Iterator[Worker]:
        """The workers that live."""
        return (worker for worker in self.workers if worker.alive)

    def add(self, name: str, node: Node) -> None:
        """A worker starts, and serves at once."""
        setup, kernel = self._fleet.setup, self._fleet.kernel
        self.workers.append(Worker(setup, kernel, self.name, name, node, self._on_event))
        self.assign()

    def submit(self, call: Call) -> None:
        """Queue a job."""
        if not call.over:
            self.waiting.append(call)
            self.assign()

    def give_up(self, call: Call) -> None:
        """Its listener does not want the job any more, wherever it is."""
        worker: Worker | None = getattr(call, self.name)
        if not self.withdraw(call) and worker is not None and worker.cancel(call.key):
            self._release(worker)

    def withdraw(self, call: Call) -> bool:
        """Take a job out of the queue; False if a worker has it."""
        if waits := call in self.waiting:
            self.waiting.remove(call)
        return waits

    def reports(self) -> tuple[Replica, ...]:
        """What gateways know of the workers."""
        return tuple(worker.report(len(self.waiting)) for worker in self)

    def _release(self, worker: Worker) -> None:
        """A job of the worker's has ended."""
        worker.used -= 1
        self.assign()

    def assign(self) -> None:
        """Give out what waits, as long as there is a slot."""
        while self.waiting:
            free = [worker for worker in self if worker.free > 0]
            if not free:
                self.most_waiting = max(self.most_waiting, len(self.waiting))
                return
            worker = min(free, key=lambda one: one.used / one.settings.slots)
            worker.used += 1
            self._begin(worker, self.waiting.popleft())

    def _open(self, worker: Worker, call: Call) -> None:
        if not worker.alive:
            return
        if call.over or getattr(call, self.name) is not worker:
            self._release(worker)
            return
        self._start(worker, call)
        if not call.silent:
            first_s = call.account.first_at_s
            worker.playback(call.key, self._fleet.kernel.now if first_s is None else first_s)

    def _on_event(
        self, worker: Worker, key: str, event: Taken | DecodedAudio | Finished | Failed
    ) -> None:
        """An event of an engine. Raises PlanError."""
        call = self._fleet.calls.get(key)
        if isinstance(event, Finished):
            self._release(worker)
        if call is None or getattr(call, self.name) is not worker:
            return
        if isinstance(event, Failed):
            raise PlanError(f"a {self.name} failed: {event.error}") from event.error
        if isinstance(event, Finished):
            worker.edge.serve(self._edge.request_s / 2, partial(self._made, call, worker, 0))
            return
        made = event.frames["codes"] if isinstance(event, Taken) else event.pcm
        if count := len(made):
            work_s = self._edge.sound_s * self._fleet.seconds(count / self.per_frame)
            worker.edge.serve(work_s, partial(self._made, call, worker, count))


class TalkerSide(StageSide):
    """Until a request's frames are in the codec log."""

    name: StageName = "talker"

    def __init__(self, fleet: World, vocoding: VocoderSide) -> None:
        super().__init__(fleet)
        self._vocoding = vocoding

    def _begin(self, worker: Worker, call: Call) -> None:
        call.talker = worker
        fleet, reading = self._fleet, self._fleet.costs.reading
        read_s = fleet.costs.read_s * worker.edge.stretch()
        spent_s = reading.request_s + reading.sound_s * fleet.seconds(call.frames)
        worker.node.worked.add(spent_s, fleet.kernel.now)
        opened = partial(self._open, worker, call)
        worker.edge.serve(self._edge.request_s / 2, lambda: fleet.kernel.after(read_s, opened))
        if not call.asked:
            call.asked = True
            fleet.publish(0.0, 0.0, partial(self._vocoding.submit, call))

    def _start(self, worker: Worker, call: Call) -> None:
        restored = frames_of(call.committed) if call.committed else None
        job = (FakePrepared(call.request), restored, (call.frames,))
        worker.opened(call.key, partial(worker.engine.open, *job, final=True))

    def _made(self, call: Call, worker: Worker, count: int) -> None:
        """The next frames of a request, or its end, are in the log."""
        if not worker.alive or call.over or call.talker is not worker:
            return
        call.committed += count
        call.whole = call.whole or not count
        if count:
            worker.tell(lambda: worker.engine.acknowledge(call.key))
        logged = partial(self._vocoding.feed, call)
        self._fleet.publish(0.0, self._fleet.seconds(count), logged)


class VocoderSide(StageSide):
    """Until a request's sound leaves the bus."""

    name: StageName = "vocoder"
    per_frame = SAMPLES

    def _begin(self, worker: Worker, call: Call) -> None:
        call.vocoder, call.fed, call.finishing = worker, -1, False
        worker.edge.serve(self._edge.request_s / 2, partial(self._open, worker, call))

    def _start(self, worker: Worker, call: Call) -> None:
        """With what the log has by now."""
        worker.opened(call.key, partial(worker.engine.open, call.request))
        call.fed = 0
        self.feed(call)

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

    def _made(self, call: Call, worker: Worker, count: int) -> None:
        """Sound, or its end, on its way to the gateway."""
        seconds, share = self._fleet.seconds(count / SAMPLES), 0.0 if count else 0.5
        self._fleet.publish(share, seconds, lambda: self._fleet.reach(call, count))
