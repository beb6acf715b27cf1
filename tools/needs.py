"""Print what packages of this repository need from elsewhere, one requirement a line.

python tools/needs.py libs/ttscommon services/talker[checkpoints]
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
OWN: Final = "antiphon-"
_FOLDERS: Final = {
    "antiphon-families": "libs/ttsfamilies",
    "antiphon-gateway": "services/gateway",
    "antiphon-ttscommon": "libs/ttscommon",
}


def needs(packages: Iterable[str], root: Path = ROOT) -> list[str]:
    """The dependencies that the packages declare, and those of the extras behind their names.

    Of our own packages only the extras that others ask for.
    """
    found: set[str] = set()
    for package in packages:
        folder, extras = _parts(package)
        project = tomllib.loads((root / folder / "pyproject.toml").read_text())["project"]
        asked = [*project["dependencies"]]
        for extra in extras:
            asked += project["optional-dependencies"][extra]
        found.update(need for need in asked if not need.startswith(OWN))
        for need in asked:
            if need.startswith(OWN) and "[" in need:
                found.update(_of_extras(*_parts(need), root))
    return sorted(found)


def _of_extras(name: str, extras: Iterable[str], root: Path) -> Iterable[str]:
    project = tomllib.loads((root / _FOLDERS[name] / "pyproject.toml").read_text())["project"]
    return (need for extra in extras for need in project["optional-dependencies"][extra])


def _parts(package: str) -> tuple[str, list[str]]:
    name, _, extras = package.rstrip("]").partition("[")
    return name, [extra for extra in extras.split(",") if extra]


if __name__ == "__main__":
    print("\n".join(needs(sys.argv[1:])))
