"""All measurements in order, each in a process of its own, and each within its minutes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import psutil

from antiphon_bench.gpu.records import Records

# When the process began, where this module is the program's; set by `__main__`.
_began_s: float | None = None


class CutOff(Exception):
    """The minutes are over; what was measured is kept."""


def count_start() -> None:
    """From now on the start of this process counts: an interpreter with torch takes seconds."""
    global _began_s
    _began_s = psutil.Process().create_time()


def spent_s() -> float:
    """Seconds since this process began; 0 where it is not the subcommand's own."""
    return 0.0 if _began_s is None else time.time() - _began_s


@contextmanager
def within(minutes: float) -> Iterator[None]:
    """Raise CutOff inside when the minutes are over. For the main thread."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise CutOff

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(0.01, 60 * minutes - spent_s()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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
