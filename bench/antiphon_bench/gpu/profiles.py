"""A profile of one step: kernels by the time they take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from antiphon_bench.gpu.engines import Engines
from antiphon_bench.gpu.records import Point

_SHOWN = 25


@torch.inference_mode()
def profiled(engines: Engines, batch: int, runs: int, trace: Path) -> Iterator[Point]:
    """The costliest kernels of a step of `batch` streams (operators, on a CPU)."""
    device, work = engines.subject.device, engines.steps(batch)
    device.submit(work)
    device.mark().wait()
    kinds = [ProfilerActivity.CPU]
    if device.where.type == "cuda":
        kinds.append(ProfilerActivity.CUDA)
    with profile(activities=kinds) as seen:
        for _ in range(runs):
            device.submit(work)
        device.mark().wait()
    seen.export_chrome_trace(str(trace))
    field = "self_device_time_total" if len(kinds) > 1 else "self_cpu_time_total"
    events = sorted(seen.key_averages(), key=lambda event: -getattr(event, field))
    for event in events[:_SHOWN]:
        took_us = getattr(event, field) / runs
        yield {"kernel": event.key, "calls": event.count / runs, "us_a_step": round(took_us, 1)}
