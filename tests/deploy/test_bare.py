"""Wheels in a bare Debian, with each Python that it brings: first sound, upgrade, no rest.

`make test-deploy` runs it as root, with debootstrap and Debian's mirror in reach. Figures are in
docs/deploy.md.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.engine import ASKED, asked
from tests.deploy.installed import build, pip
from tests.deploy.test_wheels import earlier, ours
from tools.packages import ROOT

pytestmark = pytest.mark.slow

MARK: Final = re.compile(r"(up|said|read)=[\d.]+$")
PYTHON: Final = "/opt/antiphon/bin/python"
_AUTHORITIES: Final = "etc/ssl/certs/ca-certificates.crt"
_MAKE_S: Final = 1200.0
_COMMAND_S: Final = 1800.0
# Only Debian has a build for processors of this one; ranges of ours are checked with the other.
DEBIANS_TORCH: Final = ("python3-torch",)


@dataclass(frozen=True)
class Debian:
    """A root folder with nothing but Python, and what `chroot` runs in it."""

    root: Path
    suite: str
    torch: tuple[str, ...] = ()

    def make(self) -> None:
        """Raises CalledProcessError."""
        wanted = "ca-certificates,python3,python3-venv"
        options = ("--variant=minbase", f"--include={wanted}")
        _run("debootstrap", *options, self.suite, str(self.root), limit_s=_MAKE_S)
        shutil.copy(f"/{_AUTHORITIES}", self.root / _AUTHORITIES)
        if self.torch:
            self.run("apt-get", "install", "--yes", "--no-install-recommends", *self.torch)

    def run(self, *command: str) -> str:
        """What it prints."""
        own = ("PATH=/opt/antiphon/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8")
        return _run("chroot", str(self.root), "env", "-i", *own, *command)

    def install(self, wheels: Path, names: list[str]) -> None:
        """Ours and what they need, as the lock has it; torch is there, or is the pinned file."""
        target = self.root / "wheels"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(wheels, target)
        shutil.copy(ROOT / "requirements.txt", target)
        files = [next(target.glob(f"{name.replace('-', '_')}-[0-9]*.whl")) for name in names]
        shared = ("--system-site-packages",) if self.torch else ()
        self.run("python3", "-m", "venv", *shared, "/opt/antiphon")
        place = ("-m", "pip", "install", "--quiet", "--no-deps")
        locked = ("--require-hashes", "-r", "/wheels/requirements.txt")
        self.run(PYTHON, *place, *locked)
        torch = () if self.torch else target.glob("torch-*.whl")
        found = [f"/wheels/{path.name}" for path in (*files, *torch)]
        self.run(PYTHON, *place, "--no-index", *found)

    def megabytes(self, folder: str) -> int:
        return int(self.run("du", "-sm", folder).split()[0])


def _run(*command: str, limit_s: float = _COMMAND_S) -> str:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit_s
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def debian(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Debian]:
    if not asked():
        pytest.skip(f"run by `make test-deploy`, which sets {ASKED}")
    if os.geteuid() or shutil.which("debootstrap") is None:
        pytest.skip("a bare Debian needs root and debootstrap")
    suite = request.param
    torch = DEBIANS_TORCH if suite == "trixie" else ()
    made = Debian(tmp_path_factory.mktemp(suite) / "root", suite, torch)
    made.make()
    _run("mount", "-t", "proc", "proc", str(made.root / "proc"))
    _run("mount", "--bind", "/dev", str(made.root / "dev"))
    yield made
    for place in ("dev", "proc"):
        _run("umount", "--lazy", str(made.root / place))
    shutil.rmtree(made.root, ignore_errors=True)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = build(tmp_path_factory.mktemp("wheels"))
    pin = (ROOT / "requirements-torch.txt").read_text().splitlines()[-1]
    pip("download", "--no-deps", "--dest", folder, pin)
    return folder


SPEAK: Final = """
set -eu
cd /root
antiphon up --port 8123 --start-timeout 900 > up.log 2>&1 &
until grep -q "Antiphon is up" up.log; do kill -0 $! || { cat up.log; exit 1; }; sleep 0.2; done
date +up=%s.%N
antiphon say --url http://127.0.0.1:8123 "The tide is coming in." -o tide.wav
date +said=%s.%N
printf 'The tide is coming in.\\n\\nAnd it is out.\\n' > book.txt
antiphon read --url http://127.0.0.1:8123 book.txt -o book.opus
date +read=%s.%N
kill $!; wait $!
"""


def test_a_bare_debian_speaks_is_upgraded_and_is_left_as_it_was(
    debian: Debian, wheels: Path, tmp_path: Path
) -> None:
    """In one: what makes a Debian and fetches packages takes minutes."""
    old = build(tmp_path / "old", earlier(tmp_path / "earlier"))
    for torch in wheels.glob("torch-*.whl"):
        shutil.copy(torch, old)
    before = {path.name for path in debian.root.iterdir()}
    debian.install(old, ours_without_torch(old))
    began_s = time.monotonic()
    debian.install(wheels, ours_without_torch(wheels))
    installed_s = time.monotonic() - began_s
    began_s = time.time()
    said = debian.run("sh", "-c", SPEAK)
    marks = dict(line.split("=") for line in said.splitlines() if MARK.match(line))
    figures = {
        "python": debian.run("python3", "--version").split()[1],
        "installed_s": round(installed_s, 1),
        "megabytes": debian.megabytes("/opt/antiphon"),
        "up_s": round(float(marks["up"]) - began_s, 1),
        "said_s": round(float(marks["said"]) - float(marks["up"]), 1),
        "compiled_mb": debian.megabytes("/opt/antiphon/share/antiphon"),
    }
    print(figures)
    assert (debian.root / "root/tide.wav").stat().st_size > 40_000
    assert (debian.root / "root/book.opus").stat().st_size > 2_000
    debian.run(PYTHON, "-m", "pip", "uninstall", "--yes", "--quiet", *ours_without_torch(wheels))
    assert "antiphon" not in debian.run(PYTHON, "-m", "pip", "list")
    debian.run("rm", "-r", "/opt/antiphon", "/wheels")
    for name in ("tide.wav", "book.txt", "book.opus", "up.log"):
        (debian.root / "root" / name).unlink()
    assert {path.name for path in debian.root.iterdir()} == before
    assert debian.run("find", "/", "-xdev", "-iname", "*antiphon*") == ""


def ours_without_torch(folder: Path) -> list[str]:
    """Names of our packages among the wheels."""
    return [name for name in ours(folder) if name.startswith("antiphon")]
