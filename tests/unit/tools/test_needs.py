"""What packages of the repository need, over all that they need of ours."""

from pathlib import Path

import pytest

from tools.needs import needs, own
from tools.packages import ROOT, packages


def project(root: Path, folder: str, name: str, lines: str) -> None:
    (root / folder).mkdir(parents=True)
    text = f'[project]\nname = "{name}"\n{lines}'
    (root / folder / "pyproject.toml").write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    extras = '[project.optional-dependencies]\nnn = ["torch>=2"]\n'
    project(tmp_path, "libs/a", "our-a", f'dependencies = ["msgspec>=0.2"]\n{extras}')
    project(tmp_path, "libs/b", "our-b", 'dependencies = ["our-a[nn]==1", "numpy>=2"]\n')
    project(tmp_path, "services/c", "our-c", 'dependencies = ["our-b==1"]\n')
    project(tmp_path, "cli", "our-cli", 'dependencies = ["our-a==1", "rich>=15"]\n')
    return tmp_path


def test_a_package_below_another_brings_its_needs_and_extras(root: Path) -> None:
    assert needs(["services/c"], root) == ["msgspec>=0.2", "numpy>=2", "torch>=2"]
    assert needs(["cli"], root) == ["msgspec>=0.2", "rich>=15"]
    assert needs(["libs/a[nn]", "cli"], root) == ["msgspec>=0.2", "rich>=15", "torch>=2"]


def test_a_new_package_below_libs_is_found_by_its_file(root: Path) -> None:
    assert own(["services/c"], root) == ["libs/a", "libs/b", "services/c"]
    assert own(["cli", "services/c"], root) == ["libs/a", "libs/b", "services/c", "cli"]


def test_every_project_of_the_repository_is_a_package() -> None:
    below = {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("*/pyproject.toml")}
    below |= {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("*/*/pyproject.toml")}
    below = {folder for folder in below if not folder.startswith("examples/")}  # of others
    assert {package.folder for package in packages().values()} == below
