"""A request's way between processes: the bus, through a talker and a vocoder, to its listener."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from antiphon_bench.plan import PlanError
from antiphon_bench.plan.calls import Call, Host, Pool
from antiphon_bench.plan.costs import Costs, Edge
from antiphon_bench.plan.kernel import Action, Kernel, Node, Station, Waits
from antiphon_bench.plan.models import SAMPLES, PlannedRequest, frames_of
from antiphon_bench.plan.shapes import Setup
from antiphon_bench.plan.workers import TalkerWorker, VocoderWorker, Worker
from talker.engine.stream import ChunkReady
from ttscommon.engine.runtime import Failed, Finished
from ttscommon.sound.headroom import FIRST_CHUNKS
from ttscommon.wire.subjects import StageName
from vocoder.engine.stream import DecodedAudio

W = TypeVar("W", bound=Worker)


class Bus:
    """All brokers of a deployment, which share the work."""

    def __init__(self, kernel: Kernel, node: Node, costs: Costs, brokers: int) -> None:
        self.brokers = brokers
        self._kernel = kernel
        self._costs = costs
        self._station = Station(kernel, node, servers=brokers, name="bus")
        self._waits = Waits(kernel, node, "hops")

    @property
    def worked_s(self) -> float:
        """Processor time of one of them."""
        return self._station.worked_s / self.brokers

    def hop(self, then: Action) -> None:
        """A message goes from one process to another, whose threads wait for a processor."""
        self._kernel.after(self._costs.hop_s * self._waits.stretch(), then)

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

    def queue(self, pool: Pool, call: Call) -> None:
        """The queue takes a job."""
        if not call.over:
            pool.submit(call)

    def seconds(self, frames: float) -> float:
        return frames / self.costs.speech.frame_rate_hz


class StageSide(ABC, Generic[W]):
    """A job's way through a worker of one stage. `pool` has the workers."""

    stage: StageName

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._edge: Edge = getattr(ground.costs, self.stage)
        self.pool = Pool(self._begin)

    @abstractmethod
    def _begin(self, worker: W, call: Call) -> None:
        """The job has a slot of the worker."""

    @abstractmethod
    def _start(self, worker: W, call: Call) -> None:
        """Open its stream behind what is in the logs."""

    @abstractmethod
    def _made(self, call: Call, worker: W, count: int) -> None:
        """So many frames or samples of a request leave the worker; 0: there are no more."""

    def feed(self, call: Call) -> None:
        """Give its worker what is new."""

    def _count(self, call: Call, event: Any) -> tuple[int, float]:
        """What an event has more of a request, and that in frames; 0 of other events."""
        del call, event
        return 0, 0.0

    def _open(self, worker: W, call: Call) -> None:
        if not worker.alive:
            return
        if call.over or getattr(call, self.stage) is not worker:
            self.pool.release(worker)
            return
        self._start(worker, call)
        if not call.silent:
            first_s = call.account.first_at_s
            worker.playback(call.key, self._ground.kernel.now if first_s is None else first_s)
        self.feed(call)

    def on_event(self, worker: W, key: str, event: object) -> None:
        """An event of an engine. Raises PlanError."""
        call = self._ground.calls.get(key)
        if isinstance(event, Finished):
            self.pool.release(worker)
        if call is None or getattr(call, self.stage) is not worker:
            return
        if isinstance(event, Failed):
            raise PlanError(f"a {self.stage} failed: {event.error}") from event.error
        if isinstance(event, Finished):
            worker.edge.serve(self._edge.request_s / 2, partial(self._made, call, worker, 0))
            return
        count, frames = self._count(call, event)
        if count:
            work_s = self._edge.sound_s * self._ground.seconds(frames)
            worker.edge.serve(work_s, partial(self._made, call, worker, count))


class TalkerSide(StageSide[TalkerWorker]):
    """Until a request's frames are in the codec log."""

    stage: StageName = "talker"

    def __init__(self, ground: Ground, vocoding: VocoderSide) -> None:
        super().__init__(ground)
        self._vocoding = vocoding

    def _begin(self, worker: TalkerWorker, call: Call) -> None:
        call.talker = worker
        ground, reading = self._ground, self._ground.costs.reading
        read_s = ground.costs.read_s * worker.edge.stretch()
        spent_s = reading.request_s + reading.sound_s * ground.seconds(call.frames)
        worker.node.worked(spent_s, ground.kernel.now)
        opened = partial(self._open, worker, call)
        worker.edge.serve(self._edge.request_s / 2, lambda: ground.kernel.after(read_s, opened))
        if not call.asked:
            call.asked = True
            asked = partial(ground.queue, self._vocoding.pool, call)
            ground.bus.publish(0.0, 0.0, asked)

    def _start(self, worker: TalkerWorker, call: Call) -> None:
        restored = frames_of(call.committed) if call.committed else None
        prepared = PlannedRequest(call.request)
        begin = partial(worker.engine.open, prepared, restored, (call.frames,), final=True)
        worker.opened(call.key, begin)

    def _count(self, call: Call, event: Any) -> tuple[int, float]:
        del call
        frames = len(event.arrays["codes"]) if isinstance(event, ChunkReady) else 0
        return frames, frames

    def _made(self, call: Call, worker: TalkerWorker, count: int) -> None:
        """The next frames of a request, or its end, are in the log."""
        if not worker.alive or call.over or call.talker is not worker:
            return
        call.committed += count
        call.whole = call.whole or not count
        if count:
            worker.tell(lambda: worker.engine.acknowledge(call.key))
        logged = partial(self._vocoding.feed, call)
        self._ground.bus.publish(0.0, self._ground.seconds(count), logged)


class VocoderSide(StageSide[VocoderWorker]):
    """Until a request's sound leaves the bus."""

    stage: StageName = "vocoder"

    def __init__(self, ground: Ground, heard: Callable[[Call, int], object]) -> None:
        """`heard`: so many samples of a request are at its gateway; 0: there are no more."""
        super().__init__(ground)
        self._heard = heard

    def _begin(self, worker: VocoderWorker, call: Call) -> None:
        call.vocoder, call.fed, call.finishing = worker, -1, False
        worker.edge.serve(self._edge.request_s / 2, partial(self._open, worker, call))

    def _start(self, worker: VocoderWorker, call: Call) -> None:
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

    def _count(self, call: Call, event: Any) -> tuple[int, float]:
        samples = len(event.pcm) if isinstance(event, DecodedAudio) else 0
        return samples, samples / SAMPLES

    def _made(self, call: Call, worker: VocoderWorker, count: int) -> None:
        """Sound, or its end, on its way to the gateway."""
        seconds, share = self._ground.seconds(count / SAMPLES), 0.0 if count else 0.5
        self._ground.bus.publish(share, seconds, lambda: self._heard(call, count))


class ClientSide:
    """All clients. They take some of the first machine where a shape says what."""

    def __init__(self, ground: Ground, end: Callable[[Call], object]) -> None:
        """`end`: a client has all of its request."""
        self._ground, self._end = ground, end
        self._costs = ground.setup.shape.listeners or Edge(0.0, 0.0)
        self._station = Station(ground.kernel, ground.nodes[0], servers=64)

    def ask(self) -> None:
        """A client asks, and may be refused."""
        self._work(self._costs.refusal_s)

    def admitted(self) -> None:
        """Its request goes on: what that costs beyond asking."""
        self._work(self._costs.request_s - self._costs.refusal_s)

    def _work(self, seconds: float) -> None:
        if seconds:
            self._station.serve(seconds, lambda: None)

    def reach(self, call: Call, samples: int) -> None:
        """Sound at the gateway; 0: there is no more."""
        gateway = call.gateway
        call.said = call.said or not samples
        if gateway is None or call.over:
            return
        edge = self._ground.costs.gateway
        work_s = edge.sound_s * self._ground.seconds(samples / SAMPLES)
        work_s += edge.request_s / 2 if call.said else 0.0
        gateway.edge.serve(work_s, lambda: self._pass_on(call, gateway, samples))

    def _pass_on(self, call: Call, gateway: Host, samples: int) -> None:
        if call.over:
            return
        if samples:
            if call.silent:
                gateway.spoke(call)
            self._ground.bus.hop(partial(self._play, call, samples))
        if call.said:
            self._ground.bus.hop(lambda: self._end(call))

    def _play(self, call: Call, samples: int) -> None:
        account = call.account
        first = not account.started
        account.feed(samples, self._ground.kernel.now)
        self._work(self._costs.sound_s * self._ground.seconds(samples / SAMPLES))
        if account.chunks == FIRST_CHUNKS and call.gateway and account.min_slack_s is not None:
            call.gateway.headroom.add(call.request.headroom_s, account.min_slack_s)
        if first:
            self._ground.bus.publish(0.0, 0.0, lambda: self._tell_playback(call))

    def _tell_playback(self, call: Call) -> None:
        first_s = call.account.first_at_s
        for worker in (call.talker, call.vocoder):
            if worker is not None and worker.alive and not call.over and first_s is not None:
                worker.playback(call.key, first_s)
