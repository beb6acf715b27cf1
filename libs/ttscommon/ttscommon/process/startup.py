"""The version that runs, and its process's start, accounted for part by part."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import structlog


def _version() -> str:
    try:
        return version("antiphon-ttscommon")
    except PackageNotFoundError:
        return "source"  # run from a folder that was copied, not installed


VERSION: Final = _version()


OTHER: Final = "other"
_STARTTIME: Final = 19  # of the fields behind the program's name
_IMPORTED_S: Final = time.monotonic()

log_ = structlog.get_logger(__name__)


def process_began_s(stat: Path = Path("/proc/self/stat")) -> float:
    """When this process began, on time.monotonic's clock.

    Where the system does not tell, when this module was imported.
    """
    try:
        ticks = int(stat.read_text().rpartition(")")[2].split()[_STARTTIME])
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return _IMPORTED_S
    return time.monotonic() - age_s


def waited_s(tasks: Path = Path("/proc/self/task")) -> float:
    """For how long the threads of this process could have run and had no processor; 0 where the
    system does not tell.
    """
    total_ns = 0
    for task in tasks.glob("*/schedstat"):
        try:
            total_ns += int(task.read_text().split()[1])
        except (OSError, ValueError, IndexError):
            continue  # a thread that has ended
    return 1e-9 * total_ns


class Startup:
    """Seconds of each part; a part may come several times.

    When the process takes work `tell` hears of each part, and of what no part accounts for, with
    the stage, and `tell_waited` how much of all that the process waited for a processor.
    """

    def __init__(
        self,
        tell: Callable[[str, str, float], None] = lambda stage, part, seconds: None,
        clock: Callable[[], float] = time.monotonic,
        began_s: float | None = None,
        tell_waited: Callable[[str, float], None] = lambda stage, seconds: None,
    ) -> None:
        self.parts: dict[str, float] = {}
        self._tell, self._tell_waited, self._clock = tell, tell_waited, clock
        self._began_s = process_began_s() if began_s is None else began_s

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What is done inside is this part."""
        began_s = self._clock()
        try:
            yield
        finally:
            self._add(name, self._clock() - began_s)

    def imported(self) -> None:
        """All until now was the interpreter and its modules."""
        self._add("import", self._clock() - self._began_s)

    def finish(self, stage: str) -> None:
        """The stage takes work: log its parts and have them exported."""
        total_s = self._clock() - self._began_s
        self._add(OTHER, max(0.0, total_s - sum(self.parts.values())))
        for name, seconds in self.parts.items():
            self._tell(stage, name, seconds)
        self._tell_waited(stage, waited := min(total_s, waited_s()))
        parts = {f"{name}_s": round(seconds, 3) for name, seconds in self.parts.items()}
        told = {"total_s": round(total_s, 3), "waited_s": round(waited, 3)}
        log_.info("service.started", stage=stage, **told, **parts)

    def _add(self, name: str, seconds: float) -> None:
        self.parts[name] = self.parts.get(name, 0.0) + seconds
