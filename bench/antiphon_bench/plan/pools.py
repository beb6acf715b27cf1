"""The workers of a stage and the jobs that wait for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from antiphon_bench.plan.calls import Call
from antiphon_bench.plan.workers import Worker
from ttscommon.wire.replicas import Replica


class Pool:
    """One stage's. A job goes to the worker with the smallest share of its slots taken."""

    def __init__(self, begin: Callable[[Worker, Call], object]) -> None:
        """`begin`: a worker has the job, and a slot for it."""
        self.workers: list[Worker] = []
        self.waiting: deque[Call] = deque()
        self.most_waiting = 0
        self._begin = begin

    def __iter__(self) -> Iterator[Worker]:
        """Those that live."""
        return (worker for worker in self.workers if worker.alive)

    def add(self, worker: Worker) -> None:
        self.workers.append(worker)
        self.assign()

    def submit(self, call: Call, *, first: bool = False) -> None:
        """Queue a job, in front of the others if it was begun before."""
        if first:
            self.waiting.appendleft(call)
        else:
            self.waiting.append(call)
        self.assign()

    def release(self, worker: Worker) -> None:
        """A job of the worker's has ended."""
        worker.used -= 1
        self.assign()

    def withdraw(self, call: Call) -> bool:
        """Take a job out of the queue; False if a worker has it."""
        if call not in self.waiting:
            return False
        self.waiting.remove(call)
        return True

    def reports(self) -> tuple[Replica, ...]:
        """What gateways know of those that take jobs."""
        queued = len(self.waiting)
        return tuple(worker.report(queued) for worker in self if not worker.draining)

    def assign(self) -> None:
        """Give out what waits, as long as there is a slot."""
        while self.waiting:
            free = [worker for worker in self if worker.free > 0]
            if not free:
                self.most_waiting = max(self.most_waiting, len(self.waiting))
                return
            worker = min(free, key=lambda one: one.load)
            worker.used += 1
            self._begin(worker, self.waiting.popleft())
