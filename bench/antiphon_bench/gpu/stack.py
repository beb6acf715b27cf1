"""Loads on the whole stack, started and stopped here: `antiphon up` in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from antiphon_bench.config import Arrivals, Closed, Poisson, RunConfig, Target
from antiphon_bench.gpu.records import Point
from antiphon_bench.results import RequestResult, read_lines
from antiphon_bench.run import run_together

_START_S: Final = 240.0
_STOP_S: Final = 20.0


@dataclass(frozen=True)
class Plan:
    """What runs, where, and for how long each load lasts.

    checkpoint: a folder with weights; None for fake engines that take no time at all. lengths:
    frames that requests ask for.
    """

    out: Path
    checkpoint: Path | None
    device: str
    duration_s: float
    warmup_s: float
    lengths: Sequence[int]

    def arguments(self, port: int) -> list[str]:
        command = [sys.executable, "-m", "antiphon", "up", "--port", str(port), "--json"]
        if self.checkpoint is None:
            return [*command, "--engine", "fake", "--curve", str(self._no_time())]
        slots = "256"
        settings = [f"{stage}.voice_dir={self.checkpoint}" for stage in ("talker", "vocoder")]
        settings += [f"{stage}.{n}={slots}" for stage in ("talker", "vocoder") for n in _WIDTHS]
        told = [argument for setting in settings for argument in ("--set", setting)]
        return [*command, "--pair", "--device", self.device, *told]

    def _no_time(self) -> Path:
        folder = self.out / "no-time"
        folder.mkdir(parents=True, exist_ok=True)
        step = {"base_s": 0.0, "stream_s": 0.0, "prefill_s": 0.0}
        (folder / "talker.json").write_bytes(msgspec.json.encode(step))
        (folder / "vocoder.json").write_bytes(msgspec.json.encode({"base_s": 0.0, "frame_s": 0.0}))
        return folder


_WIDTHS: Final = ("slots", "batch_streams")


def open_loop(plan: Plan, url: str, point: Point) -> Point:
    """Poisson arrivals at `rate` requests a second, in equal parts of each length."""
    each = point["rate"] / len(plan.lengths)
    return _load(plan, url, f"open-{point['rate']}", Poisson(rate=each))


def closed_loop(plan: Plan, url: str, point: Point) -> Point:
    """`listeners` users who ask again when they have received all."""
    parts = min(len(plan.lengths), point["listeners"])
    users = Closed(concurrency=-(-point["listeners"] // parts), listen=False)
    return _load(plan, url, f"closed-{point['listeners']}", users, parts)


def _load(plan: Plan, url: str, name: str, arrivals: Arrivals, parts: int = 0) -> Point:
    lengths = plan.lengths[: parts or len(plan.lengths)]
    configs = [_config(plan, url, arrivals, length, plan.out / name) for length in lengths]
    run_together(configs)
    found = [one for config in configs for one in read_lines(config.out / "requests.jsonl")]
    return figures([one for one in found if one.measured], plan.duration_s)


def _config(plan: Plan, url: str, arrivals: Arrivals, length: int, out: Path) -> RunConfig:
    # A request that nothing stops ends one frame before its limit.
    body = {} if plan.checkpoint is None else {"max_new_tokens": length + 1}
    voice = "default" if plan.checkpoint is None else "vivian"
    target = Target(url=url, protocol="http", response_format="pcm", voices=(voice,), body=body)
    return RunConfig(
        target=target,
        arrivals=arrivals,
        texts="short",
        warmup_s=plan.warmup_s,
        duration_s=plan.duration_s,
        seed=length,
        out=out / str(length),
    )


def figures(results: Sequence[RequestResult], duration_s: float) -> Point:
    """What a load gave: milliseconds to the first audible sample, underruns, audio a second."""
    heard = [one for one in results if one.outcome == "ok"]
    first_ms = [1e3 * one.ttfa_s for one in heard if one.ttfa_s is not None]
    quantiles = np.quantile(first_ms, (0.5, 0.95, 0.99)).round(1).tolist() if first_ms else []
    return {
        "asked": len(results),
        "ok": len(heard),
        "ttfa_ms": dict(zip(("p50", "p95", "p99"), quantiles, strict=False)),
        "underruns": sum(one.underruns for one in heard),
        "audio_s_per_s": round(sum(one.audio_s for one in heard) / duration_s, 1),
    }


@contextmanager
def running(plan: Plan) -> Iterator[str]:
    """The stack's URL; its log is in `out`. Raises RuntimeError if it does not become ready."""
    plan.out.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    with (plan.out / "stack.log").open("w") as log:
        stack = subprocess.Popen(
            plan.arguments(port), stdout=log, stderr=log, start_new_session=True
        )
        try:
            _until_ready(stack, f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            stack.send_signal(signal.SIGTERM)
            try:
                stack.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(stack.pid, signal.SIGKILL)
                stack.wait()


def _until_ready(stack: subprocess.Popen[bytes], url: str) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if stack.poll() is not None:
            raise RuntimeError(f"antiphon up ended with {stack.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/v1/audio/voices", timeout=2) as answer:
                if msgspec.json.decode(answer.read()).get("voices"):
                    return
        except (OSError, ValueError):
            pass
        time.sleep(0.2)
    raise RuntimeError(f"the stack was not ready within {_START_S:g} s")


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
