"""Processes that serve an address on this machine, and what a second of sound takes of each."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import psutil
import typer

from antiphon_bench.config import Closed, RunConfig, Target
from antiphon_bench.run import run


class NotHere(Exception):
    """Nothing on this machine listens there, or it may not be looked at."""


@dataclass(frozen=True)
class Served:
    """A process of the stack. `name`: gateway, talker, vocoder, ..., broker."""

    name: str
    process: psutil.Process


def stack_at(url: str) -> list[Served]:
    """The process that listens at `url` and its siblings; raises NotHere.

    The services of `antiphon up` are children of one supervisor.
    """
    port = urlsplit(url).port
    for connection in psutil.net_connections(kind="tcp"):
        listens = connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        if listens and connection.pid is not None:
            supervisor = psutil.Process(connection.pid).parent()
            siblings = supervisor.children() if supervisor is not None else []
            return [Served(_name(process), process) for process in siblings]
    raise NotHere(f"nothing that can be looked at listens at {url}")


def _name(process: psutil.Process) -> str:
    """The module that the process runs, without its package."""
    words = process.cmdline()
    if "-m" in words[:-1]:
        return str(words[words.index("-m") + 1]).rsplit(".", maxsplit=1)[-1]
    name = str(process.name())
    return "broker" if name == "nats-server" else name


@dataclass(frozen=True)
class Use:
    """CPU time over wall time: `cores` by name (1.0 is a full core), `machine` of all cores."""

    cores: dict[str, float]
    machine: float


def use(served: Sequence[Served], after_s: float, for_s: float) -> Use:
    """What the processes take from `after_s` to `after_s + for_s` from now; blocks."""
    time.sleep(after_s)
    began = time.monotonic()
    psutil.cpu_percent()
    before = [_cpu_s(each.process) for each in served]
    time.sleep(for_s)
    took_s = time.monotonic() - began
    machine = psutil.cpu_percent() / 100.0
    cores: dict[str, float] = {}
    for each, start in zip(served, before, strict=True):
        share = max(0.0, _cpu_s(each.process) - start) / took_s
        cores[each.name] = cores.get(each.name, 0.0) + share
    return Use(cores, machine)


def _cpu_s(process: psutil.Process) -> float:
    """CPU seconds so far; a process that died in the meantime has none."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


OTHER: Final = "other"
PURPOSES: Final[Mapping[str, Sequence[str]]] = {
    "products": ("nn/packed.py", "nn/modules/linear.py"),
    "between products": ("_numba.py", "engine/kernels/", "torch/"),
    "reading": ("base/text/", "vesper/text", "text_feed.py", "_told ("),
    "codec": ("/codec/", "/codec.py"),
    "step": ("ttsfamilies/",),
    "turns": ("talker/engine/", "vocoder/engine/", "ttscommon/engine/"),
    "reports": ("cluster/reporter.py", "worker/", "reaper/", "leases.py"),
    "commits": ("logs/commits.py", "logs/logstore.py", "bus/streams.py", "logs/repair.py"),
    "framing": ("ttscommon/wire/",),
    "encoding": ("gateway/audio/", "vocoder/pcm.py"),
    "bus": ("ttscommon/bus/", "/nats/"),
    "admission": ("/admission/",),
    "logs, metrics": (
        "process/metrics.py",
        "structlog/",
        "prometheus_client/",
        "process/tracing.py",
        "opentelemetry/",
    ),
    "http": (
        "uvicorn/",
        "starlette/",
        "fastapi/",
        "gateway/protocols/",
        "httptools",
        "websockets/",
    ),
    "stage": ("talker/", "vocoder/", "gateway/", "ttscommon/"),
    "event loop": ("asyncio/", "uvloop", "threading.py", "queue.py", "selectors.py"),
}
_RATE_HZ: Final = 100


@dataclass(frozen=True)
class Account:
    """Milliseconds of processor time a second of sound: by process, and by purpose in each."""

    streams: int
    sound_s_per_s: float
    processes: Mapping[str, float]
    purposes: Mapping[tuple[str, str], float]


def purpose(stack: str) -> str:
    """Of a sample, its frames from the outermost to the innermost, joined by semicolons."""
    for frame in reversed(stack.split(";")):
        for name, places in PURPOSES.items():
            if any(place in frame for place in places):
                return name
    return OTHER


def shares(samples: Iterable[str]) -> dict[str, float]:
    """How py-spy's lines, a stack and a count each, are divided among purposes; they sum to 1."""
    counts: Counter[str] = Counter()
    for line in samples:
        stack, _, count = line.rpartition(" ")
        counts[purpose(stack)] += int(count)
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()}


def sampled(stack: Sequence[Served], after_s: float, for_s: float) -> dict[str, dict[str, float]]:
    """How the time of processes is divided from `after_s` to `after_s + for_s` from now, by their
    names; empty without a sampler. Blocks.
    """
    sampler = shutil.which("py-spy") or shutil.which(
        "py-spy", path=str(Path(sys.executable).parent)
    )
    if sampler is None:
        return {}
    time.sleep(after_s)
    with tempfile.TemporaryDirectory() as folder:
        files = {one.process.pid: Path(folder, str(one.process.pid)) for one in stack}
        options = ["--duration", str(round(for_s)), "--rate", str(_RATE_HZ), "--format", "raw"]
        options += ["--full-filenames", "--nonblocking"]
        running = [
            subprocess.Popen(
                [sampler, "record", "--pid", str(pid), *options, "--output", str(file)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for pid, file in files.items()
        ]
        for process in running:
            process.wait(for_s + 60)
        lines = defaultdict[str, list[str]](list)
        for one in stack:
            if (file := files[one.process.pid]).exists():
                lines[one.name] += file.read_text().splitlines()
    return {name: shares(found) for name, found in lines.items() if found}


def measured(url: str, streams: int, seconds: float, out: Path) -> Account:
    """One load; blocks."""
    stack = stack_at(url)
    config = RunConfig(
        target=Target(url=url, response_format="pcm"),
        arrivals=Closed(concurrency=streams),
        texts="medium",
        warmup_s=8.0,
        duration_s=seconds,
        out=out / str(streams),
    )
    with ThreadPoolExecutor(2) as aside:
        used = aside.submit(use, stack, config.warmup_s, seconds)
        divided = aside.submit(sampled, stack, config.warmup_s, seconds)
        summary = run(config)
    if not summary.audio_s_per_s:
        raise typer.BadParameter(f"no sound came from {url} in {seconds:g} s", param_hint="--url")
    processes = {
        name: 1e3 * cores / summary.audio_s_per_s for name, cores in used.result().cores.items()
    }
    purposes = {
        (process, what): processes[process] * share
        for process, found in divided.result().items()
        for what, share in found.items()
    }
    return Account(streams, summary.audio_s_per_s, processes, purposes)


def table(accounts: Sequence[Account]) -> str:
    """A row for each process and purpose, a column for each load."""
    head = [f"{a.streams} streams" for a in accounts]
    rows = [["", *head], ["sound, s/s", *[f"{a.sound_s_per_s:.1f}" for a in accounts]]]
    rows.append(["all processes", *[f"{sum(a.processes.values()):.2f}" for a in accounts]])
    for process in accounts[-1].processes:
        rows.append([process, *[f"{a.processes.get(process, 0.0):.2f}" for a in accounts]])
        names = {name for a in accounts for p, name in a.purposes if p == process}
        last = accounts[-1].purposes
        for name in sorted(names, key=lambda name: -last.get((process, name), 0.0)):
            each = [f"{a.purposes.get((process, name), 0.0):.2f}" for a in accounts]
            rows.append([f"  {name}", *each])
    return "\n".join(f"{row[0]:<24}" + "".join(f"{cell:>12}" for cell in row[1:]) for row in rows)


def processor(
    url: Annotated[str, typer.Option(help="Base address.")] = "http://127.0.0.1:8000",
    streams: Annotated[str, typer.Option(help="Users at once, in turn.")] = "1,8,24",
    duration: Annotated[float, typer.Option(help="Measured of each (s).")] = 20.0,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("bench-processor"),
) -> None:
    """Milliseconds of processor time a second of sound, by process of the stack at an address."""
    print(table([measured(url, int(n), duration, out) for n in streams.split(",")]))
