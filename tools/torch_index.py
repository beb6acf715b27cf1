"""Say where pip should take torch from, so that a machine without a GPU downloads no CUDA.

    python tools/torch_index.py [--accelerator auto|cpu|cuda] [--index URL|none]

Prints pip's options on standard output (an empty line: pip's own configuration is enough) and
the reason, with the download's size, on standard error. Exits with 1 if only a CUDA build can be
had for a machine without a GPU; `--index none` accepts it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
CPU_INDEX: Final = "https://download.pytorch.org/whl/cpu"
NONE: Final = "none"

_PROBE_TIMEOUT_S: Final = 5.0
_RESOLVE_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True)
class Wheel:
    """One file that pip would install; `size_bytes` is 0 if it is not known."""

    name: str
    version: str
    url: str
    size_bytes: int = 0

    @property
    def local(self) -> bool:
        return self.url.startswith("file:")

    @property
    def cuda(self) -> bool:
        return self.name.startswith(("nvidia-", "cuda-"))


@dataclass(frozen=True)
class Choice:
    """The index to add to pip's own (None: nothing to add), and why."""

    index: str | None
    reason: str


class OnlyCuda(Exception):
    """Nothing but a CUDA build can be had, and the machine has no GPU for it."""


Plan = Callable[[str | None], Sequence[Wheel]]


def choose(
    wanted: str, accelerator: str, reachable: Callable[[str], bool], plan: Plan
) -> tuple[Choice, Sequence[Wheel]]:
    """The index for torch and what pip would fetch with it; raises OnlyCuda.

    `wanted` is what the user asked for, empty for nothing; `accelerator` "cpu" or "cuda".
    """
    if wanted == NONE:
        return _planned(Choice(None, "pip's own indexes, as asked"), plan)
    if wanted:
        return _planned(Choice(wanted, f"{wanted}, as asked"), plan)
    if accelerator == "cuda":
        return _planned(Choice(None, "this machine has an NVIDIA GPU: the CUDA build"), plan)
    if reachable(CPU_INDEX):
        return _planned(Choice(CPU_INDEX, "no NVIDIA GPU here: the CPU build"), plan)
    choice, wheels = _planned(Choice(None, f"{CPU_INDEX} cannot be reached: pip's indexes"), plan)
    if any(wheel.cuda for wheel in wheels):
        raise OnlyCuda(
            f"This machine has no NVIDIA GPU, {CPU_INDEX} cannot be reached, and pip's own indexes "
            f"offer only the CUDA build ({size(wheels)}).\n"
            "Name an index with CPU builds:  make serve TORCH_INDEX=<url>\n"
            "or accept the CUDA build:       make serve TORCH_INDEX=none"
        )
    return choice, wheels


def _planned(choice: Choice, plan: Plan) -> tuple[Choice, Sequence[Wheel]]:
    return choice, plan(choice.index)


def size(wheels: Sequence[Wheel]) -> str:
    """What is to be downloaded, in words."""
    remote = [wheel for wheel in wheels if not wheel.local]
    if not remote:
        return "nothing to download"
    if not all(wheel.size_bytes for wheel in remote):
        return f"{len(remote)} files of unknown size to download"
    return f"{sum(wheel.size_bytes for wheel in remote) / 1e6:,.0f} MB to download"


def describe(choice: Choice, wheels: Sequence[Wheel]) -> str:
    """One line for the person who waits."""
    torch = next((wheel for wheel in wheels if wheel.name == "torch"), None)
    what = f"torch {torch.version}" if torch else "torch, already installed"
    return f"{what}: {choice.reason}; with what it needs, {size(wheels)}"


def has_gpu(devices: Path = Path("/dev")) -> bool:
    """Whether an NVIDIA device and its driver are here."""
    return shutil.which("nvidia-smi") is not None and any(devices.glob("nvidia[0-9]*"))


def reachable(index: str) -> bool:
    """Whether the index answers for torch."""
    try:
        with urllib.request.urlopen(f"{index}/torch/", timeout=_PROBE_TIMEOUT_S) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def plan(index: str | None) -> list[Wheel]:
    """What pip would fetch for the pinned torch; raises CalledProcessError."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    options = ["-qq", "--dry-run", "--report", "-", *pip_options(index), pin()]
    result = subprocess.run(
        [*command, *options],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=_RESOLVE_TIMEOUT_S,
    )
    return [_wheel(item) for item in json.loads(result.stdout)["install"]]


def pin(requirements: Path = ROOT / "requirements-torch.txt") -> str:
    """The line of the lock that names torch."""
    lines = requirements.read_text().splitlines()
    return next(line for line in lines if line.startswith("torch=="))


def pip_options(index: str | None) -> list[str]:
    return ["--extra-index-url", index] if index else []


def _wheel(item: dict[str, dict[str, str]]) -> Wheel:
    metadata, url = item["metadata"], item["download_info"]["url"]
    return Wheel(metadata["name"], metadata["version"], url, _size_bytes(url))


def _size_bytes(url: str) -> int:
    if url.startswith("file:"):
        return 0
    try:
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=_PROBE_TIMEOUT_S) as response:
            return int(response.headers.get("content-length", 0))
    except OSError:
        return 0


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--accelerator", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--index", default="")
    options = parser.parse_args()
    accelerator = options.accelerator
    if accelerator == "auto":
        # Outside Linux the public index has no CUDA builds, so there is nothing to avoid.
        accelerator = "cuda" if has_gpu() or sys.platform != "linux" else "cpu"
    try:
        choice, wheels = choose(options.index, accelerator, reachable, plan)
    except OnlyCuda as error:
        print(error, file=sys.stderr)
        return 1
    print(describe(choice, wheels), file=sys.stderr)
    print(" ".join(pip_options(choice.index)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
