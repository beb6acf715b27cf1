"""A decode step's time as its launches and the bytes that it cannot but read predict it."""

from __future__ import annotations

from typing import Final

from antiphon_bench.gpu.engines import Engines
from antiphon_bench.gpu.subject import Subject
from ttscommon.engine.device.device import Device
from ttsfamilies.qwen3_tts.synthetic.sizes import Size

# Of a step of 64 streams of Qwen3-TTS, as tests count them without a GPU.
STEP_LAUNCHES: Final = 579
# Of one launch within a graph that waits for the one before: its start, its end, and the little
# that most of them compute.
LAUNCH_S: Final = 2.3e-6


def measured_step(device: Device, size: Size, batch: int, runs: int) -> tuple[float, float]:
    """Seconds of a recorded step of so many streams, and what is predicted of them."""
    engines = Engines(Subject(device, size), batch, runs)
    found = engines.step({"batch": batch})
    read_s = found["least_bytes"] / engines.bandwidth({})["bytes_per_s"]
    return found["seconds"], read_s + STEP_LAUNCHES * LAUNCH_S
