"""Checkpoints made ready in a cache: what is pickled is converted once, what is apart is joined.

A ready folder has links to the files that are served as they are, so it costs what was converted
and nothing else. It is made aside and renamed, and made anew where what it was made of has changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.conversion import Shown, convert
from ttscommon.engine.hub import PICKLES, due, unordered

_HOME: Final = "XDG_CACHE_HOME"
_VOICES: Final = "voices"
_KEY_DIGITS: Final = 16


@dataclass(frozen=True)
class Chosen:
    """files: of a folder, by the paths below it that they are read under. beside: what lies in it
    of other folders, by the names that those have there.
    """

    folder: Path
    files: Mapping[str, str]
    beside: Mapping[str, Chosen] = field(default_factory=dict)

    def sources(self) -> Iterator[tuple[str, Path]]:
        """Every file, by its path in the ready folder."""
        for name, source in sorted(self.files.items()):
            yield name, self.folder / source
        for inside, other in sorted(self.beside.items()):
            yield from ((f"{inside}/{name}", path) for name, path in other.sources())

    @property
    def ready(self) -> bool:
        """Whether it can be served where it is."""
        renamed = any(name != path for name, path in self.files.items())
        return not (self.beside or renamed or list(_converted(self)))


def cache() -> Path:
    """Where ready folders are kept."""
    home = os.environ.get(_HOME, "")
    return (Path(home) if home else Path.home() / ".cache") / "antiphon" / "checkpoints"


def assembled(
    chosen: Chosen,
    *,
    say: Callable[[str], object] = lambda line: None,
    shown: Shown = lambda done, whole: None,
) -> Path:
    """The folder of a checkpoint that services read: its own, or one in the cache.

    say: told once what is converted, and where to. Raises CheckpointError.
    """
    if chosen.ready:
        return chosen.folder
    home = cache() / _key(chosen)
    found = home / chosen.folder.name
    with _locked(home):
        if not _whole(found):
            shutil.rmtree(found, ignore_errors=True)
            _make(chosen, home, found, say, shown)
    return found


def _key(chosen: Chosen) -> str:
    """Of what the ready folder is made of."""
    hashed = hashlib.sha256()
    for name, path in chosen.sources():
        told = path.stat()
        hashed.update(f"{name} {path.resolve()} {told.st_size} {told.st_mtime_ns}\n".encode())
    return hashed.hexdigest()[:_KEY_DIGITS]


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Of two starts one makes the folder, and the other waits for it."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        with (home / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise CheckpointError(
            f"{home} cannot be written ({error.strerror}): set {_HOME} to a folder that can"
        ) from error


def _whole(found: Path) -> bool:
    """Whether all that its links lead to is still there."""
    return found.is_dir() and all(path.exists() for path in found.rglob("*"))


def _make(
    chosen: Chosen, home: Path, found: Path, say: Callable[[str], object], shown: Shown
) -> None:
    with tempfile.TemporaryDirectory(dir=home, prefix=".making-") as scratch:
        made = Path(scratch) / found.name
        for name, path in chosen.sources():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).symlink_to(path.resolve())
        parts = list(_converted(chosen))
        if pickled := _pickled(made):
            count = sum(path.stat().st_size for path in pickled)
            say(f"converts {_size(count)} of pickles, once, into {found}")
        for inside in parts:
            convert(made / inside, shown=shown)
        for path in _pickled(made):
            path.unlink()
        for folder in [path for path in made.rglob("*") if path.is_dir()]:
            if not any(folder.iterdir()):
                folder.rmdir()
        made.rename(found)


def _pickled(folder: Path) -> Sequence[Path]:
    return [path for path in folder.rglob("*") if path.suffix in PICKLES]


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(1, round(count / 1e6))} MB"


def _converted(chosen: Chosen) -> Iterator[str]:
    """Folders that have something to convert, by their paths in the ready one."""
    by_folder: dict[str, list[str]] = defaultdict(list)
    for name in chosen.files:
        place = PurePosixPath(name)
        by_folder[str(place.parent)].append(place.name)
    for inside, names in sorted(by_folder.items()):
        above, _, last = inside.rpartition("/")
        if last == _VOICES and (above or ".") in by_folder:
            continue  # by the folder above
        voices = due(by_folder.get(_voices_of(inside), ()))
        if due(names) or voices or unordered(names):
            yield inside
    for inside, other in chosen.beside.items():
        yield from (f"{inside}/{below}" for below in _converted(other))


def _voices_of(inside: str) -> str:
    return _VOICES if inside == "." else f"{inside}/{_VOICES}"
