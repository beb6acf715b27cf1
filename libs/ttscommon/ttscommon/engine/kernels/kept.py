"""The folder that compiled kernels are kept in, whether all lie there, and their compilation."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Final

COMPILER: Final = Path(__file__).with_name("compiled.py")
_NAMED: Final = "NUMBA_CACHE_DIR"
_OWN: Final = "antiphon_*.dist-info/top_level.txt"
_KERNELS: Final = "*_numba.py"


def folder() -> Path:
    """NUMBA_CACHE_DIR, or the environment's.

    numba reads only where it could write, and notices a change of a kernel's own file alone, not of
    what it has from others, so that the environment's is another one for each version of them all.
    """
    if named := os.environ.get(_NAMED):
        return Path(named)
    seen = hashlib.sha256(COMPILER.read_bytes())
    for _, path in sources():
        seen.update(path.read_bytes())
    kernels = seen.hexdigest()[:12]
    made = Path(sys.prefix, "share", "antiphon", "kernels", kernels)
    if _writable(made):
        return made
    return copied(made, Path(tempfile.gettempdir(), f"antiphon-kernels-{os.getuid()}-{kernels}"))


def _writable(wanted: Path) -> bool:
    try:
        wanted.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(wanted, os.W_OK)


def copied(made: Path, own: Path) -> Path:
    """What is kept is trusted as code is, so a folder that another user made is not read."""
    if own.is_dir() and own.stat().st_uid == os.getuid():
        return own
    copy = Path(tempfile.mkdtemp(prefix=f"{own.name}-"))
    if made.is_dir():
        shutil.copytree(made, copy, dirs_exist_ok=True)
        copy.chmod(0o700)  # copied as well
    try:
        return copy.rename(own)
    except OSError:  # another process was first
        return copy


def sources() -> Iterator[tuple[str, Path]]:
    """Names and files of all modules with such kernels in what is installed of our packages."""
    for package in sorted(_packages()):
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            continue
        root = Path(spec.origin).parent
        for path in sorted(root.rglob(_KERNELS)):
            yield ".".join((package, *path.relative_to(root).with_suffix("").parts)), path


def _packages() -> set[str]:
    """Found by name: to ask each distribution what it is takes every start a tenth of a second."""
    own = (file for folder in sys.path for file in Path(folder).glob(_OWN))
    return {name for file in own for name in file.read_text().split()}


def complete(found: Iterable[tuple[str, Path]]) -> Path:
    """The file that says, once it is there, that all of these are compiled."""
    seen = hashlib.sha256(version("numba").encode())
    for name, path in found:
        # As numba sees them, without fractions of seconds, which no image's layer keeps.
        about = path.stat()
        seen.update(f"{name} {path} {int(about.st_mtime)} {about.st_size}\n".encode())
    return folder() / f"{seen.hexdigest()[:12]}.complete"


_MOST_PROCESSES: Final = 4  # two modules take most of the time


def modules() -> Iterator[str]:
    """Names of all modules with such kernels."""
    return (name for name, _ in sources())


def compiled() -> bool:
    """Whether all of them are compiled already."""
    return complete(sources()).exists()


def compile_all() -> None:
    """Import each of them, and say in the folder that all are there."""
    found = list(sources())
    _without_fractions(path for _, path in found)
    import_module("ttscommon.engine.kernels.compiled")
    if hasattr(os, "sched_getaffinity"):  # Linux, where a process that has no threads may fork
        longest = sorted(found, key=lambda one: one[1].stat().st_size, reverse=True)
        processes = min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)
        with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
            tuple(pool.map(_compile, (name for name, _ in longest)))
    for name, _ in found:  # two processes that kept one at a time may have lost some
        _compile(name)
    mark = complete(found)
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
