"""What a machine without a network needs besides Python 3.12, torch and triton, in one archive."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
MOST_BYTES: Final = 60_000_000
# There already, or of no use to a measurement.
_LEFT_OUT: Final = ("torch", "triton", "setuptools", "sympy", "networkx", "nvidia", "sentencex")
_SOURCES: Final = ("libs", "services", "cli", "bench", "voices/vesper", "pyproject.toml", "LICENSE")
_PLATFORMS: Final = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64")


class TooLarge(Exception):
    """The archive would not fit."""


def bundle(target: Path, *, wheels: bool = True, most: int = MOST_BYTES) -> int:
    """Write sources and wheels; returns the bytes. Raises TooLarge, CalledProcessError."""
    with TemporaryDirectory() as folder, tarfile.open(target, "w:gz") as archive:
        for source in _SOURCES:
            archive.add(ROOT / source, f"antiphon/{source}", filter=_kept)
        if wheels:
            _download(Path(folder))
            archive.add(folder, "antiphon/wheels")
    size = target.stat().st_size
    if size > most:
        target.unlink()
        raise TooLarge(f"{size} bytes, and {most} is the most")
    return size


def pins() -> list[str]:
    """What is served and measured with, at the versions of the locks."""
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    lines += [
        line
        for line in (ROOT / "requirements-dev.txt").read_text().splitlines()
        if line.startswith(("typer", "rich", "matplotlib", "psutil", "aiohttp", "jinja2"))
    ]
    return [line for line in lines if line and line[0] != "#" and not line.startswith(_LEFT_OUT)]


def _download(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder)]
    command += ["--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp"]
    for platform in _PLATFORMS:
        command += ["--platform", platform]
    subprocess.run([*command, *pins()], check=True)


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    cached = ("__pycache__", ".egg-info", ".mypy_cache")
    return None if any(part in member.name for part in cached) else member
