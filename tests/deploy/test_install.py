"""Each package installs into an empty environment with what it declares, and imports there."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.engine import ASKED, asked
from tests.deploy.installed import build
from tests.unit.test_imports import PACKAGES, TENSORS, modules
from tests.unit.test_packages import locked, project

_PIP_TIMEOUT_S = 600


def pip(python: Path | str, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments, "--quiet"]
    subprocess.run(command, check=True, timeout=_PIP_TIMEOUT_S)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of our packages, built as they would be published."""
    if not asked():
        pytest.skip(f"run by `make test-deploy`, which sets {ASKED}")
    return build(tmp_path_factory.mktemp("wheels"))


@pytest.fixture
def python() -> Iterator[Path]:
    """That of an empty environment, which may become a gigabyte."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        yield Path(folder) / "bin/python"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_installs_into_an_empty_environment(
    package: str, wheels: Path, python: Path
) -> None:
    limits = python.parents[1] / "constraints.txt"
    limits.write_text("\n".join(f"{name}=={version}" for name, version in locked().items()))
    pins = ["--constraint", str(limits)]
    # A second source of links must not hide those of the environment.
    links = f"{wheels} {os.environ.get('PIP_FIND_LINKS', '')}".split()
    found = [option for link in links for option in ("--find-links", link)]
    pip(python, "install", *found, *pins, project(package)["name"])
    pip(python, "check")
    named = [name for name in modules(package, PACKAGES[package]) if not optional(name)]
    program = f"import {', '.join(named)}"
    subprocess.run([str(python), "-c", program], check=True, cwd=wheels, timeout=120)


def optional(module: str) -> bool:
    """What needs an extra: torch in ttscommon, and triton, which only CUDA builds bring."""
    return module.startswith(TENSORS) or module.endswith("_triton")
