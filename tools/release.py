"""Give everything that is released one version, and close the list of changes.

    python -m tools.release 0.3.0

Packages, what they ask of each other, the chart and its images. What CHANGELOG.md has under
"Unreleased" becomes the version's, and must say how to upgrade. The commit and its tag `v0.3.0` are
the maintainer's; what follows from the tag is .github/workflows/release.yaml.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tools.packages import ROOT, packages

CHART: Final = "helm/antiphon/Chart.yaml"
CHANGES: Final = "CHANGELOG.md"
UNRELEASED: Final = "## Unreleased\n"
UPGRADING: Final = "### Upgrading"
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:rc\d+)?")
_OWN_LINE: Final = re.compile(r'^version = "([^"]+)"$', re.M)
_CHART_LINE: Final = re.compile(r"^(?:version|appVersion): (\S+)$", re.M)


def versions(root: Path = ROOT) -> dict[str, str]:
    """What each file says that its version is."""
    return {
        f"{name}:{line}": found[1]
        for name, pattern in _lines(root)
        for line, found in enumerate(pattern.finditer((root / name).read_text("utf-8")))
    }


def set_version(version: str, root: Path = ROOT) -> None:
    """Write it everywhere; raises ValueError for what is no version."""
    if not _VERSION.fullmatch(version):
        raise ValueError(f"{version!r} is no version like 0.3.0 or 0.3.0rc1")
    for name, pattern in _lines(root):
        path = root / name
        text = pattern.sub(lambda found: found[0].replace(found[1], version), path.read_text())
        path.write_text(_asked(text, version, root), "utf-8")


def close_changes(version: str, day: str, root: Path = ROOT) -> None:
    """What is unreleased becomes the version's; raises ValueError if nothing is."""
    path = root / CHANGES
    head, found, rest = path.read_text("utf-8").partition(UNRELEASED)
    body, _, older = rest.partition("\n## ")
    if not found or not body.strip():
        raise ValueError(f"{CHANGES} has nothing under {UNRELEASED.strip()!r}")
    if UPGRADING not in body:
        raise ValueError(f"{CHANGES} has no {UPGRADING!r} there: nothing to do is said, too")
    path.write_text(f"{head}{UNRELEASED}\n## {version}\n\n{day}\n{body}\n## {older}", "utf-8")


def notes(version: str, root: Path = ROOT) -> str:
    """What CHANGELOG.md says of a version; raises ValueError if it does not know it."""
    text = (root / CHANGES).read_text("utf-8")
    found = re.search(rf"^## {re.escape(version)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if found is None:
        raise ValueError(f"{CHANGES} says nothing of {version}")
    return found[1].strip()


def _lines(root: Path) -> Iterator[tuple[str, re.Pattern[str]]]:
    for package in packages(root).values():
        yield f"{package.folder}/pyproject.toml", _OWN_LINE
    yield CHART, _CHART_LINE


def _asked(text: str, version: str, root: Path) -> str:
    """The versions that packages of ours ask of each other."""
    names = "|".join(map(re.escape, packages(root)))
    return re.sub(rf'("(?:{names})(?:\[[\w,-]+\])?)==[^"]+"', rf'\1=={version}"', text)


def main() -> None:
    """The version's parts are numbers; `--notes` prints what the list of changes says of one."""
    if sys.argv[1] == "--notes":
        print(notes(sys.argv[2]))
        return
    set_version(sys.argv[1])
    close_changes(sys.argv[1], f"{datetime.now(UTC):%Y-%m-%d}.")


if __name__ == "__main__":
    main()
