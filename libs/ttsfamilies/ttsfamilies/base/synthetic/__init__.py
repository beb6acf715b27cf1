"""The interface of a family's writer, and the search for it by name.

A folder of a family or a codec has a module `synthetic`, and that a `FAMILY`; a codec in the folder
of its talker has `synthetic_NAME`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

_HOME: Final = Path(__file__).parents[2]
_MODULE: Final = "synthetic"
# Folders of what is written as a part of several families.
_SHARED: Final = frozenset({"base", "s3"})


@dataclass(frozen=True)
class SyntheticFamily:
    """write(folder, size, kind, seed) writes one; the first size and kind are the defaults.

    holds: what is in the folder afterwards, in words.
    """

    write: Callable[[Path, str, str, int], None]
    holds: str
    sizes: tuple[str, ...] = ("tiny",)
    kinds: tuple[str, ...] = ("",)

    def written(self, folder: Path, size: str, kind: str, seed: int) -> str:
        """Write a checkpoint; what it is, in words. Raises ValueError for what there is not."""
        size, kind = _chosen("size", size, self.sizes), _chosen("kind", kind, self.kinds)
        self.write(folder, size, kind, seed)
        return f"{folder}: {self.holds}, {' '.join((size, kind)).strip()}, drawn from seed {seed}"


def of_parts(*parts: Callable[..., None]) -> Callable[[Path, str, str, int], None]:
    """Writes one part of a folder after the other, of one size and kind, each told the seed."""

    def write(folder: Path, size: str, kind: str, seed: int) -> None:
        for part in parts:
            part(folder, seed=seed)

    return write


def _chosen(what: str, asked: str, there: tuple[str, ...]) -> str:
    if asked and asked not in there:
        offered = ", ".join(name for name in there if name) or "none"
        raise ValueError(f"there is no {what} {asked!r}; there is {offered}")
    return asked or there[0]


def names() -> list[str]:
    """Families and codecs that can be written, in order."""
    return sorted(_written())


def family(name: str) -> SyntheticFamily:
    """What writes `name`. Raises ValueError where nothing does."""
    written = _written()
    if name not in written:
        raise ValueError(f"there is no family {name!r}; there is {', '.join(sorted(written))}")
    return import_module(written[name]).FAMILY


def _written() -> dict[str, str]:
    """The modules that write, by the name of the folder that each is in, or by their own."""
    found = {}
    for path in _HOME.rglob(f"{_MODULE}*.py"):
        folder = path.parent.relative_to(_HOME)
        if folder.name not in _SHARED:
            name = path.stem.removeprefix(_MODULE).lstrip("_") or folder.name
            found[name] = ".".join(("ttsfamilies", *folder.parts, path.stem))
    return found
