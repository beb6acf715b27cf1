"""Both sides of a family in one: what all families that compute with torch are."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import structlog

from ttscommon.engine.device.device import Device
from ttsfamilies.base.runners.computation import Computation
from ttsfamilies.base.runners.device_runner import DeviceRunner
from ttsfamilies.base.runners.torch_runner import TorchRunner
from ttsfamilies.base.sampling import Noise
from ttsfamilies.base.talker.base import Family
from ttsfamilies.base.talker.runner import Runner

log_ = structlog.get_logger(__name__)


class TalkerModel(Family, Computation):
    """A family with its device side.

    noise: what ids are drawn by. device: where its weights are, if not on the CPU, and what
    computes there. most_positions: of a prompt and its speech, where the cache holds fewer than the
    specification allows.
    """

    noise: type[Noise] = Noise
    device: Device | None = None
    most_positions: int | None = None

    @property
    def positions(self) -> int:
        """Of a prompt and its speech."""
        return min(self.spec.max_positions, self.most_positions or self.spec.max_positions)

    def fit(self, positions: int) -> None:
        self.most_positions = positions

    def compute_on(self, device: Device | None) -> None:
        """From now on runners launch there, and a step behind; the weights are there already."""
        self.device = device
        self.depth, self.exact = int(device is not None), device is None
        if device is not None and self.cache_dtype is not None:
            self.cache_itemsize = self.cache_dtype.itemsize

    def aside(self) -> AbstractContextManager[object]:
        return nullcontext() if self.device is None else self.device.aside()

    def adapt(self, slots: int, most_rank: int) -> None:
        """Have place for so many adapters, before a runner is made; see Adaptable.

        A family that cannot is served without, as its `accepts` says.
        """
        del most_rank
        log_.warning("adapters.unsupported", family=self.spec.family, adapters=slots)

    def free_bytes(self) -> int | None:
        return None if self.device is None else self.device.free_bytes()

    def runner(self, rows: int, blocks: int, depth: int) -> Runner:
        if self.device is not None:
            return DeviceRunner(self, rows, blocks, self.device, depth)
        return TorchRunner(self, rows, blocks, depth)
