"""Loads on the whole stack, started and stopped here: `antiphon up` in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from math import lcm
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from antiphon_bench.config import Arrivals, Closed, Poisson, RunConfig, Target
from antiphon_bench.gpu.records import Point
from antiphon_bench.results import RequestResult, read_lines
from antiphon_bench.run import run_together

# A subcommand's own minutes are over before that.
_START_S: Final = 420.0
_SERVICES_S: Final = 30.0
_STOP_S: Final = 20.0


@dataclass(frozen=True)
class Plan:
    """What runs, where, and for how long each load lasts.

    checkpoint: a folder with weights; None for fake engines that take no time at all. lengths:
    frames that requests ask for. kv_bytes: of the talker's cache; its own choice if None. apart:
    talker and vocoder in two processes instead of a pair.
    """

    out: Path
    checkpoint: Path | None
    device: str
    duration_s: float
    warmup_s: float
    lengths: Sequence[int]
    gateways: int = 2
    kv_bytes: int | None = None
    apart: bool = False

    @property
    def services(self) -> int:
        """Processes that say when they are ready; a pair does behind the edges of its stages."""
        apart = self.apart or self.checkpoint is None
        return self.gateways + (2 if apart else 3)

    def arguments(self, port: int) -> list[str]:
        command = [sys.executable, "-m", "antiphon", "up", "--port", str(port), "--json"]
        command += ["--gateways", str(self.gateways)]
        if self.checkpoint is None:
            return [*command, "--engine", "fake", "--curve", str(self._no_time())]
        # All else is as on any GPU: what is measured is what is served.
        settings = [f"{stage}.voice_dir={self.checkpoint}" for stage in ("talker", "vocoder")]
        if self.kv_bytes is not None:
            settings.append(f"talker.kv_bytes={self.kv_bytes}")
        told = [argument for setting in settings for argument in ("--set", setting)]
        together = [] if self.apart else ["--pair"]
        return [*command, *together, "--device", self.device, *told]

    def _no_time(self) -> Path:
        folder = self.out / "no-time"
        folder.mkdir(parents=True, exist_ok=True)
        step = {"base_s": 0.0, "stream_s": 0.0, "prefill_s": 0.0}
        (folder / "talker.json").write_bytes(msgspec.json.encode(step))
        (folder / "vocoder.json").write_bytes(msgspec.json.encode({"base_s": 0.0, "frame_s": 0.0}))
        return folder


_COUNTED: Final = ("tts_launches_total", "tts_evictions_total", "tts_refused_total")


@dataclass(frozen=True)
class Served:
    """A running stack: URLs of its gateways, and of the metrics of all its services."""

    urls: Sequence[str]
    metrics: Sequence[str]

    @classmethod
    def of(cls, log: Path, services: int) -> Self:
        """What so many services told of their ports; raises RuntimeError without all of them."""
        until = time.monotonic() + _SERVICES_S
        while time.monotonic() < until:
            ready = list(_ready(log.read_text().splitlines()))
            if len(ready) >= services:
                urls = [f"http://127.0.0.1:{one['http']}" for one in ready if "http" in one]
                metrics = [f"http://127.0.0.1:{one['admin']}/metrics" for one in ready]
                return cls(urls, metrics)
            time.sleep(0.2)
        raise RuntimeError(f"{services} services were not ready within {_SERVICES_S:g} s")

    def counts(self) -> dict[str, float]:
        """Launches by path, evictions and refusals so far, of all services."""
        found: defaultdict[str, float] = defaultdict(float)
        for url in self.metrics:
            with urllib.request.urlopen(url, timeout=5) as answer:
                page = answer.read().decode()
            for family in text_string_to_metric_families(page):
                for sample in family.samples:
                    if sample.name in _COUNTED:
                        found[_what(sample.name, sample.labels)] += sample.value
        return dict(found)


def _ready(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The `service.ready` events of a log whose other lines may be anything."""
    for line in lines:
        try:
            event = msgspec.json.decode(line[line.index("{") :])
        except (ValueError, msgspec.DecodeError):
            continue
        if event.get("event") == "service.ready" and "admin" in event:
            yield event


def _what(name: str, labels: dict[str, str]) -> str:
    short = name.removeprefix("tts_").removesuffix("_total")
    return " ".join([short, *(labels[key] for key in ("stage", "path", "reason") if key in labels)])


def open_loop(plan: Plan, served: Served, point: Point) -> Point:
    """Poisson arrivals at `rate` requests a second, in equal parts of each length."""
    parts = _parts(plan, served)
    return _load(plan, served, f"open-{point['rate']}", Poisson(rate=point["rate"] / parts), parts)


def closed_loop(plan: Plan, served: Served, point: Point) -> Point:
    """`listeners` users who ask again when they have received all."""
    parts = min(_parts(plan, served), point["listeners"])
    users = Closed(concurrency=-(-point["listeners"] // parts), listen=False)
    return _load(plan, served, f"closed-{point['listeners']}", users, parts)


def _parts(plan: Plan, served: Served) -> int:
    """Each length, and each gateway; the load is cut so that all get the same."""
    return lcm(len(plan.lengths), len(served.urls))


def _load(plan: Plan, served: Served, name: str, arrivals: Arrivals, parts: int) -> Point:
    told = islice(zip(cycle(plan.lengths), cycle(served.urls)), parts)
    out = plan.out / name
    configs = [
        _config(plan, url, arrivals, length, out / str(part), part)
        for part, (length, url) in enumerate(told)
    ]
    before = served.counts()
    run_together(configs)
    counts = {what: n - before.get(what, 0.0) for what, n in served.counts().items()}
    found = [one for config in configs for one in read_lines(config.out / "requests.jsonl")]
    measured = figures([one for one in found if one.measured], plan.duration_s)
    return {**measured, "counts": {what: int(n) for what, n in counts.items() if n}}


def _config(
    plan: Plan, url: str, arrivals: Arrivals, length: int, out: Path, seed: int
) -> RunConfig:
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
        seed=seed,
        out=out,
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
def running(plan: Plan) -> Iterator[Served]:
    """What serves; its log is in `out`. Raises RuntimeError if it does not become ready."""
    plan.out.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    with (plan.out / "stack.log").open("w") as log:
        stack = subprocess.Popen(
            plan.arguments(port), stdout=log, stderr=log, start_new_session=True
        )
        try:
            _until_ready(stack, f"http://127.0.0.1:{port}")
            yield Served.of(plan.out / "stack.log", plan.services)
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
