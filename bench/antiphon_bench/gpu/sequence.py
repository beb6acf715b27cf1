"""All measurements in order, each in a process of its own that cannot take the others along."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from antiphon_bench.gpu.minutes import spent_s
from antiphon_bench.gpu.records import Records

MOST_MINUTES: Final = 8.0
CUT_OFF: Final = 3  # the exit status of a subcommand that has more to measure
_LEAST_MINUTES: Final = 0.5
_GRACE_S: Final = 25.0


@dataclass(frozen=True)
class Part:
    """A subcommand and its own arguments."""

    name: str
    arguments: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return " ".join((self.name, *self.arguments))


# What decides most comes first: a machine may be lent for an hour only.
IN_ORDER: Final = (
    Part("bandwidth"),
    Part("check"),
    Part("profile", ("--rows", "1")),
    Part("profile", ("--rows", "64")),
    Part("step"),
    Part("predictor"),
    Part("codec"),
    Part("engine"),
    Part("weights"),
    Part("open", ("--rates", "10,20,40")),
    Part("closed", ("--listeners", "256")),
    Part("host"),
    Part("prefill"),
    Part("open", ("--rates", "20", "--apart")),
    Part("bus"),
)

# (command, seconds) -> exit status
Run = Callable[[Sequence[str], float, Path], int]


def in_order(
    parts: Sequence[Part],
    out: Path,
    shared: Callable[[Part], Sequence[str]],
    minutes: float,
    run: Run | None = None,
) -> bool:
    """Run what is not complete yet, until `minutes` are over; whether all is complete.

    One that fails is left for the next call, and the others go on. shared: further arguments.
    """
    began, records = time.monotonic() - spent_s(), Records(out, "all")
    for part in parts:
        if not records.missing([{"part": part.label, "ended": "complete"}]):
            continue
        left = minutes - (time.monotonic() - began) / 60
        if left < _LEAST_MINUTES:
            return False
        most = min(MOST_MINUTES, left - _GRACE_S / 60 if left > 1 else left)
        told = ("--out", str(out), *shared(part), *part.arguments)
        command = [sys.executable, "-m", "antiphon_bench.gpu", part.name, *told]
        if part.name != "weights":
            command += ["--minutes", f"{most:.2f}"]
        started = time.monotonic()
        status = (run or _run)(command, 60 * most + _GRACE_S, out / f"{part.name}.log")
        ended = {0: "complete", CUT_OFF: "cut off"}.get(status, f"failed ({status})")
        seconds = round(time.monotonic() - started, 1)
        records.add({"part": part.label, "ended": ended, "seconds": seconds})
        print(f"{part.label}: {ended}, {seconds} s", flush=True)
    return not records.missing([{"part": one.label, "ended": "complete"} for one in parts])


def _run(command: Sequence[str], most_s: float, log: Path) -> int:
    """The exit status; what does not end by itself is ended with all that it started."""
    with log.open("a") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            return process.wait(most_s)
        except subprocess.TimeoutExpired:
            for one in psutil.Process(process.pid).children(recursive=True):
                one.kill()
            process.kill()
            return CUT_OFF
