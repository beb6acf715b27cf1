"""Each package installs into an empty environment with what it declares, and imports there."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.engine import deployed
from tests.deploy.installed import pip
from tests.unit.test_imports import PACKAGES, TENSORS, modules
from tests.unit.test_packages import locked, project

pytestmark = deployed


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
    pip("install", *found, *pins, project(package)["name"], python=python)
    pip("check", python=python)
    named = [name for name in modules(package, PACKAGES[package]) if not optional(name)]
    program = f"import {', '.join(named)}"
    subprocess.run([str(python), "-c", program], check=True, cwd=wheels, timeout=120)


def optional(module: str) -> bool:
    """What needs an extra: torch in ttscommon, and triton, which only CUDA builds bring."""
    return module.startswith(TENSORS) or module.endswith("_triton")
