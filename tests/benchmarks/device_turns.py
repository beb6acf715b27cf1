"""Host time of the talker's turns with a device's runner, whose replays compute nothing.

What is left is what a device would wait for if nothing overlapped it: choosing, placing, staging
slots, filling inputs, submitting, unpacking results, cutting chunks. In processor time of the
engine's thread, so that a busy machine changes little.

    python -m tests.benchmarks.device_turns [STREAMS ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from unittest.mock import patch

import torch
from torch import Tensor

from antiphon_bench.gpu import turns
from tests.unit.ttsfamilies.qwen3_tts.tiny import CODEBOOKS, tiny
from ttscommon.engine.device.device import HostDevice, Recorded
from ttsfamilies.base.runners.computation import Out
from ttsfamilies.base.runners.device_runner import DeviceRunner
from ttsfamilies.qwen3_tts.family import Qwen3Tts

_BLOCKS = 32  # of each stream
_TURNS = 40


class Instant(HostDevice):
    """Replays at once: what was recorded has given its result once and for all."""

    def _record(self, work: Callable[[], Tensor]) -> Recorded:
        out = work().clone()
        return Recorded(lambda: None, out)


class Silent(Qwen3Tts):
    """Every row gains a frame of zeros."""

    def make_frames(
        self, slots: Tensor, real: int, state: Mapping[str, Tensor], hidden: Mapping[str, Tensor]
    ) -> Out:
        codes = torch.zeros(real, 1, CODEBOOKS, dtype=torch.int16)
        no = torch.zeros(real, dtype=torch.bool)
        frames = {"codes": codes, "padded": codes[:, :, 0].to(torch.uint8)}
        return Out(frames, torch.ones(real, dtype=torch.int64), no, no)


def measured_s(streams: int) -> float:
    """Median seconds of a turn."""
    family = tiny()
    family.__class__ = Silent
    device = Instant()
    family.compute_on(device)
    runner = DeviceRunner(family, 2 * streams, _BLOCKS * streams, device)
    runner.record(streams, 64)
    with patch.object(time, "perf_counter", time.thread_time):
        found = turns.measured(family, runner, streams, _TURNS)
    return float(found["host_seconds"])


def main() -> None:
    for streams in map(int, sys.argv[1:] or (1, 16, 64, 256)):
        print(f"{streams:5} streams  p50 {1e3 * measured_s(streams):6.3f} ms", flush=True)


if __name__ == "__main__":
    main()
