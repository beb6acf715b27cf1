"""Each package installs into an empty environment with what it declares, and imports there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.engine import ASKED, asked
from tests.unit.test_imports import PACKAGES, ROOT, modules
from tests.unit.test_packages import LOCKS, project

_PIP_TIMEOUT_S = 600


def pip(python: Path | str, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments, "--quiet"]
    subprocess.run(command, check=True, timeout=_PIP_TIMEOUT_S)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of our packages, built as they would be published."""
    if not asked():
        pytest.skip(f"run by `make test-deploy`, which sets {ASKED}")
    folder = tmp_path_factory.mktemp("wheels")
    sources = [str(path.parent) for path in PACKAGES.values()]
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    pip(sys.executable, "wheel", *options, *sources)
    return folder


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_installs_into_an_empty_environment(
    package: str, wheels: Path, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    pins = [option for lock in LOCKS for option in ("--constraint", str(ROOT / lock))]
    # A second source of links must not hide those of the environment.
    links = f"{wheels} {os.environ.get('PIP_FIND_LINKS', '')}".split()
    found = [option for link in links for option in ("--find-links", link)]
    pip(python, "install", *found, *pins, project(package)["name"])
    pip(python, "check")
    named = [name for name in modules(package, PACKAGES[package]) if not optional(name)]
    program = f"import {', '.join(named)}"
    subprocess.run([str(python), "-c", program], check=True, cwd=tmp_path, timeout=120)


def optional(module: str) -> bool:
    """What needs an extra: the neural blocks need torch, which ttscommon alone does not."""
    return module.startswith("ttscommon.nn") or module == "gateway.audio.resample"
