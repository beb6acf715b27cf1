"""The roster of workers: those that report, and those that had jobs when they were last seen."""

from __future__ import annotations

from collections.abc import Iterable

from ttscommon.bus import Bus
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import REPLICAS


class Roster:
    """A worker stays in it until it is known to be gone, also when its report has expired.

    One that loads its first model is not in it yet: it holds nothing, and answers no ping.
    """

    def __init__(self, bus: Bus) -> None:
        self.replicas: list[Replica] = []
        self._bus = bus
        self._missing: set[str] = set()
        self._stages: dict[str, str] = {}

    async def refresh(self) -> None:
        """Read who reports; raises BusUnavailable."""
        reports = await self._bus.kv.all(REPLICAS)
        before = self._reporting()
        found = [one for value in reports.values() if (one := _parse(value))]
        self.replicas = [one for one in found if one.models or not one.loading]
        self._missing = (self._missing | before) - self._reporting()
        known = {worker: stage for worker, stage in self._stages.items() if worker in self._missing}
        self._stages = known | {replica.worker_id: replica.stage for replica in self.replicas}

    def stage_of(self, worker_id: str) -> str | None:
        """The stage of a worker that reports, or did when it was last seen."""
        return self._stages.get(worker_id)

    def add(self, workers: Iterable[str]) -> None:
        """Workers that hold jobs, whether they report or not."""
        self._missing |= set(workers) - self._reporting()

    def workers(self) -> set[str]:
        return self._missing | self._reporting()

    def gone(self, worker_id: str) -> None:
        """There is no such worker any more. While its report lasts it may come back."""
        self._missing.discard(worker_id)

    def _reporting(self) -> set[str]:
        return {replica.worker_id for replica in self.replicas}


def _parse(value: bytes) -> Replica | None:
    try:
        return Replica.decode(value)
    except MalformedMessage:
        return None
