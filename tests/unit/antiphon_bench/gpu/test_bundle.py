"""A bundle on a machine that has Python, torch and nothing else."""

import os
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Iterator
from importlib.metadata import PackagePath, distribution
from pathlib import Path

import pytest

from antiphon_bench.gpu.bundle import (
    LEFT_OUT,
    MOST_BYTES,
    OURS,
    ROOT,
    NoWheel,
    bundle,
    closure,
    fetch,
    pins,
)
from antiphon_bench.gpu.offline import SOURCES

TINY = ("--device", "cpu", "--size", "tiny", "--rows", "1", "--runs", "1")
TORCH_ONLY = frozenset({"triton"})


def files_of(name: str) -> Iterator[PackagePath]:
    for path in distribution(name).files or ():
        if path.parts[0] != ".." and "__pycache__" not in path.parts:
            yield path


def install(name: str, site: Path) -> None:
    """Link what a package has installed here, file by file or folder by folder."""
    for top in {path.parts[0] for path in files_of(name)}:
        link = site / top
        if not link.exists():
            link.symlink_to(Path(str(distribution(name).locate_file(top))))


def installed(names: Iterator[str] | list[str], site: Path) -> Path:
    site.mkdir()
    for name in names:
        install(name, site)
    return site


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The bundle's sources unpacked, its packages installed, and torch with what it needs."""
    root = tmp_path_factory.mktemp("machine")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    bundle(root / "b.tar.gz", wheels=False, python=here)
    with tarfile.open(root / "b.tar.gz") as archive:
        archive.extractall(root, filter="data")
    site = installed(list(closure(here)), root / "antiphon" / "site")
    (site / "complete").touch()
    bare = installed(list(closure(here, TORCH_ONLY, ("torch",))), root / "torch")
    return root / "antiphon", {"PYTHONPATH": str(bare), "HOME": str(root)}


def run(machine: tuple[Path, dict[str, str]], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python as it runs the bundle, with none of this environment's packages."""
    folder, environ = machine
    paths = [*(str(folder / source) for source in SOURCES), str(folder / "site")]
    told = {**environ, "PYTHONPATH": os.pathsep.join([*paths, environ["PYTHONPATH"]])}
    # -S: what PYTHONPATH names is all there is.
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(
        command, cwd=folder, env=told, check=False, capture_output=True, text=True, timeout=120
    )


GPU = ("-m", "antiphon_bench.gpu")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["check", "codec", "host", "engine", "profile"])
def test_subcommands_run_on_what_the_bundle_brings(
    name: str, machine: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    loop = ("--loop", "1") if name == "engine" else ()
    done = run(machine, *GPU, name, "--out", str(tmp_path), *TINY, *loop)
    assert done.returncode == 0, done.stderr
    assert "complete" in done.stdout
    assert "matplotlib" not in done.stderr


def test_nothing_is_imported_that_the_bundle_does_not_bring(
    machine: tuple[Path, dict[str, str]],
) -> None:
    parts = ("antiphon.app", "antiphon.pair", "gateway.__main__", "antiphon_bench.gpu.stack")
    measuring = ("antiphon_bench.gpu.cli", "antiphon_bench.gpu.engines")
    modules = ", ".join((*parts, *measuring, "antiphon.stack.local"))
    done = run(machine, "-c", f"import {modules}")
    assert done.returncode == 0, done.stderr


def test_the_bundle_is_closed_over_what_its_packages_need() -> None:
    names = set(closure("3.12"))
    assert {"aiosignal", "frozenlist", "multidict", "yarl", "tokenizers", "nkeys"} <= names
    assert not names & (LEFT_OUT | {"torch", "triton", "sympy", "contourpy", "hf-xet"})
    assert not names & set(OURS)


def test_what_the_machine_has_is_not_brought() -> None:
    assert {pin.split("==")[0] for pin in pins("3.12", ["numpy"])} == {
        name for name in closure("3.12") if name != "numpy"
    }


def test_what_has_no_wheel_is_built_and_must_run_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    made = "nkeys-0.2.1-py3-none-any.whl"

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        if "wheel" in command:
            (Path(command[command.index("-w") + 1]) / made).touch()
            return subprocess.CompletedProcess(command, 0, "", "")
        missing = "nkeys==0.2.1" in command
        text = "ERROR: No matching distribution found for nkeys==0.2.1\n" if missing else ""
        return subprocess.CompletedProcess(command, int(missing), "", text)

    monkeypatch.setattr(subprocess, "run", run)
    fetch(["nkeys==0.2.1", "numpy==2.4.6"], tmp_path, "3.13")
    assert (tmp_path / made).exists()
    assert ran[-1][-1] == "nkeys==0.2.1"
    assert "3.13" in ran[0]
    made = "nkeys-0.2.1-cp311-cp311-linux_x86_64.whl"
    with pytest.raises(NoWheel, match="this machine alone"):
        fetch(["nkeys==0.2.1"], tmp_path, "3.13")


def test_without_sources_it_runs_those_of_the_folder_where_it_is_called(tmp_path: Path) -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    bundle(tmp_path / "b.tar.gz", wheels=False, sources=False, python=here)
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "antiphon" / "site").mkdir()
    (tmp_path / "antiphon" / "site" / "complete").touch()
    command = [sys.executable, str(tmp_path / "antiphon" / "run.py"), "report"]
    away = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert (away.returncode, "call it in their folder" in away.stderr) == (1, True)
    told = [*command, "--out", str(tmp_path / "out")]
    there = subprocess.run(told, check=False, capture_output=True, text=True, cwd=ROOT)
    assert there.returncode == 0, there.stderr
    assert (tmp_path / "out" / "report.md").exists()


def test_what_a_bundle_carries_is_within_its_size(tmp_path: Path) -> None:
    """Wheels are compressed as files here are, which spares a test of every day the network; and
    less well than in wheels, in half of the time.
    """
    sources = bundle(tmp_path / "b.tar.gz", wheels=False)
    wheels = sum(
        len(zlib.compress(Path(str(distribution(name).locate_file(path))).read_bytes(), level=1))
        for name in closure("3.12")
        for path in files_of(name)
    )
    assert sources + wheels <= MOST_BYTES


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A whole bundle, and an environment that has torch, Triton and pip alone."""
    root, here = tmp_path_factory.mktemp("whole"), f"3.{sys.version_info.minor}"
    assert bundle(root / "b.tar.gz", python=here) <= MOST_BYTES
    with tarfile.open(root / "b.tar.gz") as archive:
        archive.extractall(root, filter="data")
    bare = installed([*closure(here, frozenset(), ("torch",)), "triton", "pip"], root / "torch")
    return root / "antiphon", {"PYTHONPATH": str(bare), "HOME": str(root), "PATH": os.defpath}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["check", "step", "codec"])
def test_a_whole_bundle_installs_itself_and_measures_with_torch_and_triton_alone(
    name: str, unpacked: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    folder, environ = unpacked
    python = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    command = [str(python), "run.py", name, "--out", str(tmp_path), *TINY]
    done = subprocess.run(
        command, cwd=folder, env=environ, check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "complete" in done.stdout
    assert not any((folder / "site" / name).exists() for name in ("numba", "llvmlite"))


def test_another_python_than_the_bundle_s_is_told_so(tmp_path: Path) -> None:
    bundle(tmp_path / "b.tar.gz", wheels=False, python="3.8")
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    command = [sys.executable, "-S", str(tmp_path / "antiphon" / "run.py"), "step"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={})
    assert done.returncode == 1
    assert "The packages are for Python 3.8" in done.stderr
    assert "torch is not installed" in done.stderr
