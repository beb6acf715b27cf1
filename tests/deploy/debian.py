"""A Debian with Python, venv and certificate authorities, for tests that install packages in it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# What is installed with: the tools of both ways live apart from what they install.
TOOLS: Final = ("uv==0.13.8", "pipx==1.18.4")
WHEELS: Final = "/wheels"
OWN: Final = "/opt/antiphon"
_AUTHORITIES: Final = "etc/ssl/certs/ca-certificates.crt"
_TOOLS: Final = "/opt/tools"
_INSIDE: Final = (
    f"PATH={OWN}/bin:/root/.local/bin:{_TOOLS}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root", "LANG=C.UTF-8",
    # Both bring authorities of their own, which do not know a company's.
    f"SSL_CERT_FILE=/{_AUTHORITIES}", f"PIP_CERT=/{_AUTHORITIES}",
    f"UV_FIND_LINKS={WHEELS}", f"PIP_FIND_LINKS={WHEELS}",
)  # fmt: skip
_COMMAND_S: Final = 1800.0
_PLACES: Final = ("/root", "/opt", "/tmp", "/var/tmp", "/usr/local", "/run", "/srv")


@dataclass(frozen=True)
class Debian:
    """A root folder; raises AssertionError with what a command said that failed in it."""

    root: Path
    suite: str

    def make(self) -> None:
        wanted = "ca-certificates,python3,python3-venv"
        run("debootstrap", "--variant=minbase", f"--include={wanted}", self.suite, str(self.root))
        shutil.copy(f"/{_AUTHORITIES}", self.root / _AUTHORITIES)

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """With /proc and /dev of the system, which are unmounted behind it."""
        run("mount", "-t", "proc", "proc", str(self.root / "proc"))
        run("mount", "--bind", "/dev", str(self.root / "dev"))
        try:
            yield
        finally:
            for place in ("dev", "proc"):
                run("umount", "--lazy", str(self.root / place))

    def command(self, *command: str) -> list[str]:
        """What runs it in there, in the home of its user."""
        inside = ["/bin/sh", "-c", 'cd && exec "$@"', "sh", *command]
        return ["chroot", str(self.root), "/usr/bin/env", "-i", *_INSIDE, *inside]

    def run(self, *command: str) -> str:
        """What it prints."""
        return run(*self.command(*command))

    def shell(self, line: str) -> str:
        return self.run("sh", "-euc", line)

    def bring(self, wheels: Path) -> None:
        """A folder of them, in place of the one before."""
        shutil.rmtree(f"{self.root}{WHEELS}", ignore_errors=True)
        shutil.copytree(wheels, f"{self.root}{WHEELS}")

    def remove(self) -> None:
        run("rm", "-rf", "--one-file-system", str(self.root))

    def tools(self) -> None:
        self.run("python3", "-m", "venv", _TOOLS)
        self.run(f"{_TOOLS}/bin/pip", "install", "--quiet", *TOOLS)

    def megabytes(self, folder: str) -> int:
        return int(self.run("du", "-sm", folder).split()[0])

    def files(self) -> set[str]:
        """All where programs leave things, and what is called after us, but wheels."""
        found = self.run("find", *_PLACES, "-not", "-type", "d").splitlines()
        ours = self.run("find", "/", "-xdev", "-iname", "*antiphon*").splitlines()
        return {path for path in (*found, *ours) if not path.startswith(WHEELS)}


def run(*command: str) -> str:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_COMMAND_S
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def lacks() -> str | None:
    """Why none can be made here, or None."""
    if os.geteuid() or shutil.which("debootstrap") is None:
        return "a bare Debian needs root and debootstrap"
    return None
