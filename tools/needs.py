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


def needs(packages: Iterable[str], root: Path = ROOT) -> list[str]:
    """The dependencies that the packages declare, and those of the extras behind their names.

    Our own packages are left out.
    """
    found: list[str] = []
    for package in packages:
        folder, _, extras = package.rstrip("]").partition("[")
        project = tomllib.loads((root / folder / "pyproject.toml").read_text())["project"]
        found += project["dependencies"]
        for extra in filter(None, extras.split(",")):
            found += project["optional-dependencies"][extra]
    return sorted({need for need in found if not need.startswith(OWN)})


if __name__ == "__main__":
    print("\n".join(needs(sys.argv[1:])))
