"""Environments without this clone: wheels as they are published, and what is installed of them."""

import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tools import artifacts
from tools.packages import ROOT

# With two cores beside other work, and kernels to compile.
_START_S: Final = 400.0
_COMMAND_S: Final = 600.0
_URL: Final = re.compile(r"http://127\.0\.0\.1:\d+")
_LINK: Final = "shared.pth"
_SETTINGS: Final = ("ANTIPHON_", "PYTHONPATH", "NUMBA_CACHE_DIR", "VIRTUAL_ENV")


def pip(*arguments: str | Path, python: Path | str = sys.executable) -> None:
    """Raises CalledProcessError."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    told = [str(argument) for argument in arguments]
    subprocess.run([*command, *told, "--quiet"], check=True, timeout=900)


def git(*arguments: str) -> bytes:
    """What git prints in the clone; without its history the test is skipped."""
    try:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"the history of the repository is not here: {error}")


def sources(commit: str, folder: Path, *parts: str) -> Path:
    """Those of a commit, or parts of them, in a folder of their own."""
    folder.mkdir()
    tree = git("archive", commit, *parts)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=tree, check=True, timeout=60)
    return folder


def earlier(folder: Path, *parts: str) -> Path:
    """The sources in front of the commit that changed the version last."""
    package = "libs/ttscommon/pyproject.toml"
    changed = git("log", "-1", "--format=%H", "-G^version = ", "--", package).decode().strip()
    return sources(f"{changed}^", folder, *parts)


def build(folder: Path, root: Path = ROOT) -> Path:
    """The wheels of every package of a repository, into `folder`."""
    artifacts.wheels(folder, root, without=())
    return folder


@dataclass
class Environment:
    """One with nothing of ours but wheels. `home` is what a user has beside it."""

    folder: Path
    home: Path
    own: dict[str, str] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"

    @property
    def site(self) -> Path:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.folder / "lib" / version / "site-packages"

    @property
    def variables(self) -> Mapping[str, str]:
        kept = {n: v for n, v in os.environ.items() if not n.startswith(_SETTINGS)}
        # The broker's program is one of the shared packages'.
        folders = (self.folder / "bin", Path(sys.executable).parent, os.environ["PATH"])
        path = os.pathsep.join(map(str, folders))
        return {**kept, "PATH": path, "HOME": str(self.home), "TMPDIR": str(self.home), **self.own}

    def install(self, wheels: Path, names: Sequence[str]) -> None:
        """These, of a folder of wheels, over what another version left."""
        files = [next(wheels.glob(f"{name.replace('-', '_')}-[0-9]*.whl")) for name in names]
        with self._alone():
            pip("install", "--no-index", "--no-deps", *files, python=self.python)

    def uninstall(self, names: Sequence[str]) -> None:
        with self._alone():
            pip("uninstall", "--yes", *names, python=self.python)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Without the packages of the other environment, of which some are called like ours."""
        link = self.site / _LINK
        text = link.read_text()
        link.unlink()
        try:
            yield
        finally:
            link.write_text(text)

    def run(self, *command: str | Path) -> str:
        """What it prints on both streams; raises CalledProcessError with it in its notes."""
        told = [str(part) for part in command]
        done = subprocess.run(
            told, env=self.variables, cwd=self.home, capture_output=True, timeout=_COMMAND_S
        )
        text = (done.stdout + done.stderr).decode()
        assert done.returncode == 0, text
        return text

    @contextmanager
    def up(self) -> Iterator[tuple[str, str]]:
        """`antiphon up`: its address, and all that it said until then."""
        command = ["antiphon", "up", "--port", "0"]
        with started(command, env=self.variables, cwd=self.home) as told:
            yield told


@contextmanager
def started(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[tuple[str, str]]:
    """Any command that runs `antiphon up`: its address, and all that it said until then."""
    process = subprocess.Popen(
        command, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        said = _until(process, "Antiphon is up")
        found = _URL.search(said[said.index("Antiphon is up") :])
        assert found is not None, said
        yield found[0], said
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


def _until(process: subprocess.Popen[bytes], text: str) -> str:
    """What it says until a line with an address follows `text`."""
    assert process.stdout is not None
    said, deadline = "", time.monotonic() + _START_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not _URL.search(said.partition(text)[2]):
            assert selector.select(deadline - time.monotonic()), f"not up in time: {said}"
            part = os.read(process.stdout.fileno(), 65536)
            assert part, f"it ended: {said}"
            said += part.decode()
    return said


def empty(folder: Path) -> Environment:
    """An environment that sees the packages of this one, and nothing of the clone."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    (folder / "home").mkdir()
    made = Environment(folder / "env", folder / "home")
    shared = [path for path in sys.path if path.endswith("site-packages")]
    (made.site / _LINK).write_text("\n".join(shared))
    return made
