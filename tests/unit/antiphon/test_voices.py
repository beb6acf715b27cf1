"""Voices that are packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.stack import LocalStack, StackConfig, StackFailed, voices
from antiphon.stack.checkpoints import Checkpoint
from antiphon.stack.voices import VoiceMissing, default_voice, installed
from ttscommon.engine.checkpoint import CheckpointError

VESPER = Path(__file__).parents[3] / "voices" / "vesper"


def install(site: Path, name: str, module: str) -> Path:
    """A package as pip leaves it, with an entry point of the group; returns the module's folder."""
    about = site / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{voices.GROUP}]\n{name} = {module}\n")
    folder = site / module
    folder.mkdir()
    (folder / "__init__.py").write_text("raise AssertionError('a voice is not imported')")
    return folder


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_voice_that_anybody_published_is_found_by_its_entry_point(site: Path) -> None:
    folder = install(site, "alto", "somebodys_voice")
    assert installed()["alto"] == folder


def test_a_voice_whose_files_are_gone_is_not_listed(site: Path) -> None:
    folder = install(site, "alto", "somebodys_voice")
    (folder / "__init__.py").unlink()
    folder.rmdir()
    assert "alto" not in installed()


def test_an_installed_voice_is_served_by_its_name(site: Path) -> None:
    folder = install(site, "alto", "somebodys_voice")
    for path in VESPER.glob("*.*"):
        if path.name != "__init__.py":
            (folder / path.name).symlink_to(path)
    assert Checkpoint.parse("mine=alto").folder == folder
    with pytest.raises(CheckpointError):
        Checkpoint.parse("mine=tenor")


def test_a_clone_speaks_with_its_own_voice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voices, "installed", dict)
    assert default_voice() == VESPER


async def test_a_stack_without_a_voice_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voices, "installed", dict)
    monkeypatch.setattr(voices, "_CLONE", tmp_path)
    with pytest.raises(VoiceMissing, match="pip install antiphon-voice-vesper"):
        default_voice()
    with pytest.raises(StackFailed, match="antiphon-voice-vesper"):
        async with LocalStack(StackConfig(port=0)):
            pass
