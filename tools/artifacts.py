"""Make what a release publishes, and can be made without a container engine.

    python -m tools.artifacts FOLDER

Wheels of every package, the chart (an archive, and as an OCI layout what registries take of it),
the inventory of what is installed with them (SBOM, CycloneDX), the release's notes, and the hashes
of them all. Images are built by the workflow.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tools import oci, release
from tools.locked import pins, read
from tools.packages import ROOT, packages

CHART: Final = ROOT / "helm/antiphon"
SUMS: Final = "SHA256SUMS"
# What is for those who have a clone.
UNPUBLISHED: Final = ("antiphon-voicetrain",)
# Hashes of a release are to be those of another build of it.
_TIME_S: Final = 1_577_836_800


def make(folder: Path) -> None:
    """Everything, into a new folder; raises CalledProcessError, ValueError."""
    shutil.rmtree(folder, ignore_errors=True)
    [version] = set(release.versions().values())
    wheels(folder / "wheels")
    packed = chart()
    (folder / f"antiphon-{version}.tgz").write_bytes(packed)
    oci.layout(folder / "chart", packed, yaml.safe_load((CHART / "Chart.yaml").read_text()))
    (folder / "sbom.cdx.json").write_text(json.dumps(inventory(version), indent=1) + "\n")
    (folder / "NOTES.md").write_text(notes(version))
    (folder / SUMS).write_text("".join(f"{line}\n" for line in sums(folder)))


def wheels(folder: Path, root: Path = ROOT, without: Container[str] = UNPUBLISHED) -> None:
    """One of each package that is published.

    Of copies: what a build leaves beside its sources would be packed by the next one.
    """
    left = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    with tempfile.TemporaryDirectory() as copies:
        sources = [
            shutil.copytree(root / one.folder, Path(copies, name), ignore=left)
            for name, one in packages(root).items()
            if name not in without
        ]
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
        options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
        subprocess.run([*command, *options, *map(str, sources)], check=True, timeout=900)


def chart() -> bytes:
    """As `helm package` makes it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(CHART.rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(f"antiphon/{path.relative_to(CHART)}")
                data = path.read_bytes()
                entry.size, entry.mtime, entry.mode = len(data), _TIME_S, 0o644
                archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), mtime=_TIME_S)


def inventory(version: str) -> dict[str, Any]:
    """What `make serve` and the images install, at the versions that were tested."""
    locked = pins(read([ROOT / "requirements.txt", ROOT / "requirements-torch.txt"]))
    found = (pin.partition(";")[0].strip().split("==") for pin in sorted(locked))
    components = [
        {"type": "library", "name": name, "version": pin, "purl": f"pkg:pypi/{name}@{pin}"}
        for name, pin in found
    ]
    about = {"type": "application", "name": "antiphon", "version": version}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**about, "purl": f"pkg:pypi/antiphon@{version}"}},
        "components": components,
    }


def notes(version: str) -> str:
    """What the list of changes says of the version, or of what is not released yet."""
    try:
        return release.notes(version) + "\n"
    except ValueError:
        return release.notes("Unreleased") + "\n"


def sums(folder: Path) -> Iterator[str]:
    """A line for each file, as `sha256sum --check` reads it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != SUMS:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            yield f"{digest}  {path.relative_to(folder)}"


def main() -> None:
    """`--tag v0.3.0`: refuse where the code has another version."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tag", default="")
    options = parser.parse_args()
    known = {f"v{version}" for version in release.versions().values()}
    if options.tag and {options.tag} != known:
        sys.exit(f"the tag is {options.tag}, the code is {', '.join(sorted(known))}")
    make(options.folder)


if __name__ == "__main__":
    main()
