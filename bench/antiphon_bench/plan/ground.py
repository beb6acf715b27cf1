"""The ground that all parts of a simulated deployment stand on: time, machines, bus, requests."""

from __future__ import annotations

import math

from antiphon_bench.plan.bus import Bus
from antiphon_bench.plan.calls import Call
from antiphon_bench.plan.kernel import Action, Kernel, Node
from antiphon_bench.plan.pools import Pool
from antiphon_bench.plan.shapes import Setup
from antiphon_bench.plan.workers import Worker


class Ground:
    """One deployment's. `calls`: requests under way, by key."""

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
        """The queue takes a job as soon as it has a leader."""
        if self.kernel.now < self.bus.queues_back_s:
            self.kernel.at(self.bus.queues_back_s, lambda: self.queue(pool, call))
        elif not call.over:
            pool.submit(call)

    def send(self, worker: Worker, frames: float, then: Action) -> None:
        """What a worker's edge does with so many frames of sound, or of what becomes sound."""
        edge = self.costs.talker if worker.stage == "talker" else self.costs.vocoder
        worker.edge.serve(edge.sound_s * self.seconds(frames), then)

    def seconds(self, frames: float) -> float:
        return frames / self.costs.speech.frame_rate_hz

    def playback_s(self, call: Call) -> float:
        """When its listener began to hear it, or would."""
        first_s = call.account.first_at_s
        return self.kernel.now if first_s is None else first_s
