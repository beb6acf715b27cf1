"""One archive with all that a machine without a network needs besides Python, torch and Triton."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import distribution
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from antiphon_bench.gpu import offline

ROOT: Final = Path(__file__).resolve().parents[3]
# Our own packages, which travel as sources, and where they are.
OURS: Final = {
    "antiphon-ttscommon": "libs/ttscommon",
    "antiphon-families": "libs/ttsfamilies",
    "antiphon-gateway": "services/gateway",
    "antiphon-talker": "services/talker",
    "antiphon-vocoder": "services/vocoder",
    "antiphon": "cli",
    "antiphon-bench": "bench",
}
# The tokenizer of a published checkpoint is an extra of the talker.
ROOTS: Final = ("antiphon", "antiphon-bench", "tokenizers")
# There already, with all that they need themselves.
PRESENT: Final = frozenset({"torch", "triton"})
# What no measurement imports: plots, checkpoints from a hub, the default voice's sentences, loops
# compiled for processors.
LEFT_OUT: Final = frozenset(
    {"matplotlib", "cycler", "huggingface-hub", "sentencex", "numba", "llvmlite"}
)
# Whatever machine makes the bundle.
_LINUX: Final = {
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "sys_platform": "linux",
    "os_name": "posix",
}


def closure(
    python: str, absent: frozenset[str] = PRESENT | LEFT_OUT, roots: Sequence[str] = ROOTS
) -> dict[str, str]:
    """Names and versions of all that `roots` need on Linux with `python` ("3.12"), none of ours.

    As installed here, which the locks pin. absent: neither carried nor followed.
    """
    versions = {"python_version": python, "python_full_version": f"{python}.0"}
    environment = {**cast("dict[str, str]", default_environment()), **_LINUX, **versions}
    found: dict[str, str] = {}
    known: set[tuple[str, str]] = set()
    waiting = [Requirement(root) for root in roots]
    while waiting:
        needed = waiting.pop()
        name = canonicalize_name(needed.name)
        for extra in ("", *needed.extras):
            if name in absent or (name, extra) in known:
                continue
            known.add((name, extra))
            if name in OURS:
                waiting += _needs(_declared(name, extra), environment)
                continue
            found[name] = distribution(name).version
            lines = distribution(name).requires or ()
            waiting += _needs(lines, environment | {"extra": extra})
    return dict(sorted(found.items()))


def _declared(name: str, extra: str) -> Sequence[str]:
    """What a package of ours says it needs, at all or for an extra."""
    project = tomllib.loads((ROOT / OURS[name] / "pyproject.toml").read_text())["project"]
    lines: list[str] = project["dependencies"]
    if extra:
        lines = project.get("optional-dependencies", {}).get(extra, [])
    return lines


def _needs(lines: Sequence[str], environment: Mapping[str, str]) -> list[Requirement]:
    needs = [Requirement(line) for line in lines]
    return [one for one in needs if one.marker is None or one.marker.evaluate(dict(environment))]


MOST_BYTES: Final = 60_000_000
PYTHON: Final = "3.12"
_CACHES: Final = ("__pycache__", ".egg-info", ".mypy_cache")
# pip takes wheels of exactly the platforms that it is told.
_PLATFORMS: Final = (
    *(f"manylinux_2_{minor}_x86_64" for minor in (28, 27, 26, 24, 17)),
    *("manylinux2014_x86_64", "manylinux1_x86_64"),
)
_NO_WHEEL: Final = re.compile(r"No matching distribution found for (\S+)")


class TooLarge(Exception):
    """The archive would not fit."""


class NoWheel(Exception):
    """A package has no wheel, and none can be built that runs elsewhere."""


def bundle(
    target: Path,
    *,
    wheels: bool = True,
    sources: bool = True,
    python: str = PYTHON,
    present: Collection[str] = (),
    most: int = MOST_BYTES,
) -> int:
    """Write sources, wheels and what runs them; returns the bytes.

    present: packages that the machine has, besides torch and Triton. Raises TooLarge, NoWheel or
    CalledProcessError.
    """
    with TemporaryDirectory() as folder, tarfile.open(target, "w:gz") as archive:
        if sources:
            for source in (*OURS.values(), "LICENSE"):
                archive.add(ROOT / source, f"antiphon/{source}", filter=_kept)
        archive.add(offline.__file__, "antiphon/run.py")
        _write(archive, "antiphon/python", f"{python}\n")
        if wheels:
            fetch(pins(python, present), Path(folder), python)
            archive.add(folder, "antiphon/wheels")
    size = target.stat().st_size
    if size > most:
        target.unlink()
        raise TooLarge(f"{size} bytes, and {most} is the most")
    return size


def pins(python: str = PYTHON, present: Collection[str] = ()) -> list[str]:
    """All that is served and measured with, closed over what it needs."""
    absent = PRESENT | LEFT_OUT | frozenset(present)
    return [f"{name}=={version}" for name, version in closure(python, absent).items()]


def fetch(wanted: Sequence[str], folder: Path, python: str) -> None:
    """Wheels of these into `folder`: downloaded, or built where there is none.

    Raises NoWheel or CalledProcessError.
    """
    left, built = list(wanted), []
    while missing := _download(left, folder, python):
        left.remove(missing)
        built.append(missing)
    for pin in built:
        _build(pin, folder)


def _download(wanted: Sequence[str], folder: Path, python: str) -> str | None:
    """The first that has no wheel, if any has none; otherwise all of them are there."""
    command = [*_pip(), "download", "--quiet", "--no-deps", "-d", str(folder)]
    command += ["--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
    for platform in _PLATFORMS:
        command += ["--platform", platform]
    done = subprocess.run([*command, *wanted], check=False, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    if (found := _NO_WHEEL.search(done.stderr)) and found[1] in wanted:
        return found[1]
    raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)


def _build(pin: str, folder: Path) -> None:
    """A wheel from the sources; it has to be for any machine, as it is built on this one."""
    with TemporaryDirectory() as place:
        command = [*_pip(), "wheel", "--quiet", "--no-deps", "-w", place, pin]
        subprocess.run(command, check=True)
        [wheel] = Path(place).glob("*.whl")
        if not wheel.name.endswith("-none-any.whl"):
            raise NoWheel(f"{pin} has no wheel, and {wheel.name} is for this machine alone")
        (folder / wheel.name).write_bytes(wheel.read_bytes())


def _pip() -> list[str]:
    return [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def _write(archive: tarfile.TarFile, name: str, text: str) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(text.encode())
    archive.addfile(member, BytesIO(text.encode()))


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if any(part in member.name for part in _CACHES) else member
