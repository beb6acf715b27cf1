"""Packages declare what they import, as ranges; the lock pins it; each can be published."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.test_imports import PACKAGES, ROOT, imported
from tools.locked import pins, read

LOCKS: Final = (
    "requirements.txt",
    "requirements-torch.txt",
    "requirements-dev.txt",
    "training/requirements.txt",
)
# A distribution may give a package that others name first.
ALIASES: Final = {"opentelemetry": "opentelemetry-api"}
# What packages import where it is installed and do not ask for: `antiphon bench` says what it
# lacks, and DistillMOS would bring 600 MB that nothing imports (see tools/lock.py).
UNDECLARED: Final = {"antiphon": {"antiphon-bench"}, "voicetrain": {"distillmos"}}


def project(package: str) -> dict[str, Any]:
    path = PACKAGES[package].parent / "pyproject.toml"
    found: dict[str, Any] = tomllib.loads(path.read_text())["project"]
    return found


def declared(package: str) -> list[Requirement]:
    """What a package needs and what it can use."""
    optional = project(package).get("optional-dependencies", {}).values()
    lines = [*project(package)["dependencies"], *(line for extra in optional for line in extra)]
    return [Requirement(line) for line in lines]


def third_party(package: str) -> Iterator[str]:
    """Distributions of everything that a package's modules import."""
    distributions = packages_distributions()
    for path in PACKAGES[package].rglob("*.py"):
        for _, name in imported(path):
            top = name.split(".")[0]
            if top in sys.stdlib_module_names or top == package:
                continue
            yield canonicalize_name(ALIASES.get(top) or distributions[top][0])


def locked() -> dict[str, str]:
    found = pins(read(ROOT / lock for lock in LOCKS))
    return {
        canonicalize_name(pin.name): next(iter(pin.specifier)).version
        for pin in map(Requirement, found)
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_declares_what_it_imports(package: str) -> None:
    names = {canonicalize_name(requirement.name) for requirement in declared(package)}
    assert set(third_party(package)) - names == UNDECLARED.get(package, set())


@pytest.mark.parametrize("package", PACKAGES)
def test_a_library_names_ranges_which_the_lock_pins(package: str) -> None:
    versions = locked()
    for requirement in declared(package):
        if requirement.name.startswith("antiphon-"):
            continue
        operators = {specifier.operator for specifier in requirement.specifier}
        assert operators == {">=", "<"}, requirement
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_it_is(package: str) -> None:
    found = project(package)
    assert (PACKAGES[package].parent / found["readme"]).read_text().startswith(f"# {found['name']}")
    assert found["license"] == "Apache-2.0"
    assert any(line.startswith("Topic ::") for line in found["classifiers"])


def test_all_packages_have_one_version() -> None:
    versions = {project(package)["version"] for package in PACKAGES}
    [version] = versions
    assert f"## {version}" in Path(ROOT / "CHANGELOG.md").read_text()
