"""The folder that compiled kernels are kept in, and whether all of them lie there.

In the environment, as `ahead` leaves it there, so that it goes when the environment goes and an
image brings it along; where that cannot be written, as in an image, in a copy of it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
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
