"""The packages of this repository, each found by its pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
PLACES: Final = ("libs/*", "services/*", "cli", "voices/*", "install", "bench", "training")


@dataclass(frozen=True)
class Package:
    """One distribution. folder: below the repository's root."""

    name: str
    folder: str
    needs: tuple[str, ...]
    extras: Mapping[str, tuple[str, ...]]

    def asked(self, extras: Iterable[str] = ()) -> tuple[str, ...]:
        """What it needs at all, and for these extras; raises KeyError."""
        return (*self.needs, *(need for extra in extras for need in self.extras[extra]))


@cache
def packages(root: Path = ROOT) -> Mapping[str, Package]:
    """All of them by name, those that others need in front of most."""
    found = (_read(path, root) for place in PLACES for path in _manifests(root, place))
    return MappingProxyType({package.name: package for package in found})


def _manifests(root: Path, place: str) -> Iterator[Path]:
    return iter(sorted(root.glob(f"{place}/pyproject.toml")))


def _read(path: Path, root: Path) -> Package:
    project: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))["project"]
    extras = project.get("optional-dependencies", {})
    return Package(
        project["name"],
        str(path.parent.relative_to(root)),
        tuple(project.get("dependencies", ())),
        MappingProxyType({name: tuple(lines) for name, lines in extras.items()}),
    )
