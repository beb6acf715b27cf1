"""The interface of a family's writer, and the search for it by name.

Each other module or folder beside this one is a family (or a codec) and has a `FAMILY`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

_HOME: Final = "antiphon_bench.synthetic"
_SHARED: Final = frozenset({"command", "families", "onnx_file", "s3", "tensors"})


@dataclass(frozen=True)
class Family:
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


def _chosen(what: str, asked: str, there: tuple[str, ...]) -> str:
    if asked and asked not in there:
        offered = ", ".join(name for name in there if name) or "none"
        raise ValueError(f"there is no {what} {asked!r}; there is {offered}")
    return asked or there[0]


def names() -> list[str]:
    """Families and codecs that can be written, in order."""
    here = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(module.name for module in here if module.name not in _SHARED | {"__main__"})


def family(name: str) -> Family:
    """What writes `name`. Raises ValueError where nothing does."""
    if name not in names():
        raise ValueError(f"there is no family {name!r}; there is {', '.join(names())}")
    found: Family = import_module(f"{_HOME}.{name}").FAMILY
    return found
