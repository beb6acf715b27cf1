"""Print what packages of this repository need, and the packages of it that they need.

python -m tools.needs services/talker[checkpoints]         from elsewhere, one requirement a line
python -m tools.needs --own services/talker[checkpoints]   folders of this repository, one a line
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tools.packages import ROOT, Package, packages

_NEED: Final = re.compile(r"([\w./-]+)(?:\[([\w,-]+)\])?")


def needs(given: Iterable[str], root: Path = ROOT) -> list[str]:
    """What they and the packages of ours below them need from elsewhere, with extras."""
    return sorted(_closed(given, root)[1])


def own(given: Iterable[str], root: Path = ROOT) -> list[str]:
    """Folders of these packages and of those of ours below them."""
    wanted = {package.folder for package in _closed(given, root)[0]}
    return [one.folder for one in packages(root).values() if one.folder in wanted]


def _closed(given: Iterable[str], root: Path) -> tuple[list[Package], set[str]]:
    by_name = packages(root)
    known = {package.folder: package for package in by_name.values()} | dict(by_name)
    waiting, done = [_parts(one) for one in given], set[tuple[str, tuple[str, ...]]]()
    ours, theirs = list[Package](), set[str]()
    while waiting:
        name, extras = waiting.pop()
        package = known[name]
        if (package.name, extras) in done:
            continue
        done.add((package.name, extras))
        ours.append(package)
        for need in package.asked(extras):
            if _parts(need)[0] in by_name:
                waiting.append(_parts(need))
            else:
                theirs.add(need)
    return ours, theirs


def _parts(need: str) -> tuple[str, tuple[str, ...]]:
    """Name or folder, and extras, of `services/talker[gpu]` or `antiphon-talker[gpu]==1.0`."""
    found = _NEED.match(need)
    assert found is not None
    return found[1], tuple((found[2] or "").split(",")) if found[2] else ()


if __name__ == "__main__":
    wanted = own(sys.argv[2:]) if sys.argv[1] == "--own" else needs(sys.argv[1:])
    print("\n".join(wanted))
