"""Record what a fleet of engines exports under five loads: python -m tests.deploy.loads [NAME...].

Three talkers and three vocoders without models, six streams each in real time, are scraped every
five seconds. tests/deploy/test_scaling.py evaluates what autoscaling asks for over the recordings.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

from antiphon.stack import LocalStack, StackConfig
from antiphon_bench.config import Poisson, RunConfig, Target, TextSet
from antiphon_bench.run import run

FOLDER: Final = Path(__file__).parent / "recordings"
WORKERS: Final = 3
SCRAPE_S: Final = 5.0
SCRAPES: Final = 16
NEEDED: Final = (
    "tts_active_streams",
    "tts_queue_jobs",
    "tts_capacity_streams",
    "tts_slots",
    "tts_steady_chunks_total",
    "tts_refused_total",
    "tts_streams_total",
)
# A step of six streams takes 34 ms, the time of a frame at 85 % of the speed.
CURVES: Final = {
    "talker": {"base_s": 0.010, "stream_s": 0.004, "prefill_s": 0.003},
    "vocoder": {"base_s": 0.004, "stream_s": 0.001, "frame_s": 0.0005},
}
# Of each 200 ms a slow worker computes in this part.
_AWAKE_S: Final = 0.05
_ASLEEP_S: Final = 0.15


@dataclass(frozen=True)
class Load:
    """Requests a second of texts of one kind; `slow`: a worker that is slow meanwhile."""

    rate: float = 0.0
    texts: TextSet = "mixed"
    slow: str | None = None


LOADS: Final = {
    "idle": Load(),
    "short": Load(2.0, "short"),
    "long": Load(0.5, "long"),
    "overload": Load(4.0, "medium"),
    "one-slow-worker": Load(1.0, "medium", slow="talker-1"),
}


async def record(load: Load) -> dict[str, list[float | None]]:
    """The value of every needed series at each scrape, None where it was not exported."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        async with LocalStack(config(folder)) as stack, under(load, stack, folder):
            return await scrapes(stack)


def config(folder: Path) -> StackConfig:
    environ = {}
    for stage, curve in CURVES.items():
        path = folder / f"{stage}.json"
        path.write_text(json.dumps(curve))
        environ[stage] = {"ANTIPHON_FAKE_CURVE": str(path)}
    return StackConfig(
        port=0,
        engine="fake",
        talkers=WORKERS,
        vocoders=WORKERS,
        store=folder / "store",
        environ=environ,
    )


@asynccontextmanager
async def under(load: Load, stack: LocalStack, folder: Path) -> AsyncIterator[None]:
    """The block sees the load."""
    duties: list[asyncio.Task[Any]] = []
    if load.rate:
        bench = RunConfig(
            target=Target(url=stack.url, protocol="ws"),
            arrivals=Poisson(rate=load.rate),
            texts=load.texts,
            warmup_s=0.0,
            duration_s=SCRAPE_S * (SCRAPES + 1),
            out=folder / "bench",
        )
        duties.append(asyncio.create_task(asyncio.to_thread(run, bench)))
    if load.slow:
        duties.append(asyncio.create_task(hold_back(stack.children[load.slow].pid)))
    try:
        yield
    finally:
        if load.slow:
            duties.pop().cancel()
            if (pid := stack.children[load.slow].pid) is not None:
                os.kill(pid, signal.SIGCONT)
        await asyncio.gather(*duties)


async def hold_back(pid: int | None) -> None:
    """Let a process compute a quarter of the time, as a throttled one does."""
    assert pid is not None
    while True:
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(_ASLEEP_S)
        os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(_AWAKE_S)


async def scrapes(stack: LocalStack) -> dict[str, list[float | None]]:
    ports = {n: c.ports["admin"] for n, c in stack.children.items() if "admin" in c.ports}
    found: dict[str, list[float | None]] = {}
    async with httpx.AsyncClient(timeout=5) as client:
        began_s = time.monotonic()
        for number in range(SCRAPES):
            await asyncio.sleep(began_s + (number + 1) * SCRAPE_S - time.monotonic())
            for instance, port in ports.items():
                page = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
                for series, value in samples(page, instance):
                    found.setdefault(series, [None] * SCRAPES)[number] = value
    return dict(sorted(found.items()))


def samples(page: str, instance: str) -> list[tuple[str, float]]:
    """The needed samples of a page, named as Prometheus would."""
    found = []
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in NEEDED:
                labels = {**sample.labels, "instance": instance, "namespace": "speech"}
                named = ", ".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
                found.append((f"{sample.name}{{{named}}}", sample.value))
    return found


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or LOADS:
        found = asyncio.run(record(LOADS[name]))
        lines = [f" {json.dumps(series)}: {json.dumps(values)}" for series, values in found.items()]
        (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(name, len(found), "series")


if __name__ == "__main__":
    main()
