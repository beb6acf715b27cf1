"""Processes that serve an address on this machine, and what a second of sound takes of each."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
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


@dataclass(frozen=True)
class Account:
    """Milliseconds of processor time a second of sound, by process."""

    streams: int
    sound_s_per_s: float
    processes: Mapping[str, float]


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
    with ThreadPoolExecutor(1) as aside:
        used = aside.submit(use, stack, config.warmup_s, seconds)
        summary = run(config)
    if not summary.audio_s_per_s:
        raise typer.BadParameter(f"no sound came from {url} in {seconds:g} s", param_hint="--url")
    processes = {
        name: 1e3 * cores / summary.audio_s_per_s for name, cores in used.result().cores.items()
    }
    return Account(streams, summary.audio_s_per_s, processes)


def table(accounts: Sequence[Account]) -> str:
    """A row for each process, a column for each load."""
    head = [f"{a.streams} streams" for a in accounts]
    rows = [["", *head], ["sound, s/s", *[f"{a.sound_s_per_s:.1f}" for a in accounts]]]
    rows.append(["all processes", *[f"{sum(a.processes.values()):.2f}" for a in accounts]])
    rows += [
        [process, *[f"{a.processes.get(process, 0.0):.2f}" for a in accounts]]
        for process in accounts[-1].processes
    ]
    return "\n".join(f"{row[0]:<24}" + "".join(f"{cell:>12}" for cell in row[1:]) for row in rows)


def processor(
    url: Annotated[str, typer.Option(help="Base address.")] = "http://127.0.0.1:8000",
    streams: Annotated[str, typer.Option(help="Users at once, in turn.")] = "1,8,24",
    duration: Annotated[float, typer.Option(help="Measured of each (s).")] = 20.0,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("bench-processor"),
) -> None:
    """Milliseconds of processor time a second of sound, by process of the stack at an address."""
    print(table([measured(url, int(n), duration, out) for n in streams.split(",")]))
