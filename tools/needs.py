"""Print what packages of this repository need from elsewhere, one requirement a line.

python tools/needs.py libs/ttscommon services/talker
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
    """The dependencies that the packages declare, our own packages left out."""
    found: list[str] = []
    for package in packages:
        project = tomllib.loads((root / package / "pyproject.toml").read_text())["project"]
        found += [name for name in project["dependencies"] if not name.startswith(OWN)]
    return sorted(set(found))


if __name__ == "__main__":
    print("\n".join(needs(sys.argv[1:])))
