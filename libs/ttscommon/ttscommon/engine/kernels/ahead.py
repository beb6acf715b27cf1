"""Compile all kernels for processors ahead of their first use.

    python -m ttscommon.engine.kernels.ahead

Setups and images run it, and `antiphon up` does where they did not, so that no service compiles
when it starts. Kernels are compiled when their module is imported, and such a module's name ends in
`_numba`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from ttscommon.engine.kernels import kept

_MOST_PROCESSES: Final = 4  # two modules take most of the time


def modules() -> Iterator[str]:
    """Names of all modules with such kernels."""
    return (name for name, _ in kept.sources())


def compiled() -> bool:
    """Whether all of them are compiled already."""
    return kept.complete(kept.sources()).exists()


def compile_all() -> None:
    """Import each of them, and say in the folder that all are there."""
    found = list(kept.sources())
    _without_fractions(path for _, path in found)
    import_module("ttscommon.engine.kernels.compiled")
    if hasattr(os, "sched_getaffinity"):  # Linux, where a process that has no threads may fork
        longest = sorted(found, key=lambda one: one[1].stat().st_size, reverse=True)
        processes = min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)
        with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
            tuple(pool.map(_compile, (name for name, _ in longest)))
    for name, _ in found:  # two processes that kept one at a time may have lost some
        _compile(name)
    mark = kept.complete(found)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


def _compile(name: str) -> None:
    import_module(name)


def _without_fractions(paths: Iterable[Path]) -> None:
    """numba compiles again where a file's time is another, and layers of images keep seconds."""
    for path in paths:
        about = path.stat()
        with contextlib.suppress(OSError):
            os.utime(path, (about.st_atime, int(about.st_mtime)))


if __name__ == "__main__":
    compile_all()
