"""A device without a device: the CPU, which does what it was given only when somebody waits."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ttscommon.engine.device.device import DeviceEvent, HostDevice, Recorded, Work
from ttscommon.engine.inflight import DeviceError


class Late(HostDevice):
    """As late as a device could be at all. Whatever a runner reads before it waited, overwrites
    before it was read, or supposes to be done already, comes out wrong.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[Work] = deque()
        self._done = 0
        self.broken = False
        """Whether it fails when it is waited for."""

    def submit(self, work: Work) -> None:
        self._waiting.append(work)

    def mark(self) -> DeviceEvent:
        return _Until(self, self._done + len(self._waiting))

    def _record(self, work: Callable[[], Tensor]) -> Recorded:
        self.work_until(self._done + len(self._waiting))
        return super()._record(work)

    @torch.inference_mode()
    def work_until(self, count: int) -> None:
        """Do all of the first `count` things ever submitted."""
        if self.broken:
            raise DeviceError("CUDA error: an illegal memory access was encountered")
        while self._done < count:
            self._done += 1
            self._waiting.popleft()()


@dataclass(frozen=True)
class _Until:
    device: Late
    count: int

    def wait(self) -> None:
        self.device.work_until(self.count)
