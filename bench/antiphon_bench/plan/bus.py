"""The broker in virtual time: what a message costs, and what is lost with a broker."""

from __future__ import annotations

from functools import partial

from antiphon_bench.plan.costs import Costs
from antiphon_bench.plan.kernel import Action, Kernel, Node, Station, Waits


class Bus:
    """All brokers of a deployment, which share the work.

    back_s: when the processes of each broker have one again. queues_back_s: when the queues of jobs
    have a leader again.
    """

    def __init__(self, kernel: Kernel, node: Node, costs: Costs, brokers: int) -> None:
        self.brokers = brokers
        self.back_s = [0.0] * brokers
        self.queues_back_s = 0.0
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

    def publish(self, home: int, share: float, sound_s: float, then: Action) -> None:
        """A message of a process of broker `home`: for a `share` of what a request costs, or of so
        much sound, which passes twice: as codes and as samples.
        """
        cost, kernel = self._costs.broker, self._kernel
        work_s = cost.request_s * share + cost.sound_s * sound_s / 2
        arrived = partial(self.hop, then)
        back_s = self.back_s[home % self.brokers]
        if back_s > kernel.now:
            kernel.at(back_s, lambda: self._station.serve(work_s, arrived))
        else:
            self._station.serve(work_s, arrived)
