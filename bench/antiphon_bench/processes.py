"""Processes that serve an address on this machine, and the CPU that each of them takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil


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
