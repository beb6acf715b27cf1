"""One version for everything that is released."""

import shutil
from pathlib import Path

import pytest

from tools import release
from tools.packages import ROOT, packages


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """All files that a release changes, and no others."""
    names = [f"{package.folder}/pyproject.toml" for package in packages().values()]
    for name in (*names, release.CHART, release.CHANGES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_a_release_gives_packages_pins_and_chart_one_version(root: Path) -> None:
    release.set_version("7.8.9", root)
    assert set(release.versions(root).values()) == {"7.8.9"}
    assert "antiphon-cli==7.8.9" in (root / "install/pyproject.toml").read_text()
    assert "antiphon-ttscommon[nn]==7.8.9" in (root / "services/talker/pyproject.toml").read_text()
    assert '"numpy>=2.4,<3"' in (root / "services/talker/pyproject.toml").read_text()


def test_what_is_unreleased_becomes_the_versions(root: Path) -> None:
    (root / "CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\n### Upgrading\n\n- new\n\n## 0.2.0\n\n- old\n"
    )
    release.close_changes("7.8.9", "2030-01-02.", root)
    assert release.notes("7.8.9", root) == "2030-01-02.\n\n### Upgrading\n\n- new"
    assert release.notes("0.2.0", root) == "- old"
    with pytest.raises(ValueError, match="nothing under"):
        release.close_changes("8.0.0", "2030-01-03.", root)
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- new\n\n## 0.2.0\n")
    with pytest.raises(ValueError, match="Upgrading"):
        release.close_changes("8.0.0", "2030-01-03.", root)
    with pytest.raises(ValueError, match=r"says nothing of 7\.8\.9"):
        release.notes("7.8.9", root)


def test_what_is_unreleased_here_says_how_to_upgrade() -> None:
    assert release.UPGRADING in release.notes("Unreleased")


@pytest.mark.parametrize("version", ["", "v1.2.3", "1.2.3-beta"])
def test_what_is_no_version_is_refused(root: Path, version: str) -> None:
    with pytest.raises(ValueError, match="no version"):
        release.set_version(version, root)
    assert "" not in release.versions(root).values()
