"""`antiphon detect` tells what a file says of its origin, and whether it says anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from antiphon.app import app
from gateway.audio import AudioFormat, Provenance
from gateway.audio.provenance import DIGITAL_SOURCE_TYPE
from tests.unit.gateway.audio.test_provenance import made

runner = CliRunner()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "speech.mp3"
    path.write_bytes(made(AudioFormat("mp3"), Provenance("vesper", "Harbour Radio")))
    return path


def test_the_origin_is_shown(file: Path) -> None:
    told = runner.invoke(app, ["detect", str(file)])
    assert told.exit_code == 0
    for part in (DIGITAL_SOURCE_TYPE, "Antiphon vesper", "Harbour Radio"):
        assert part in told.output


def test_programs_read_it_as_json(file: Path) -> None:
    told = json.loads(runner.invoke(app, ["detect", "--json", str(file)]).output)
    assert [tag["GeneratedBy"] for tag in told["tags"]] == ["Harbour Radio"]


@pytest.mark.parametrize("data", [b"", b"a person spoke"])
def test_a_file_that_says_nothing_ends_with_1(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.wav").write_bytes(data)
    assert runner.invoke(app, ["detect", str(tmp_path / "a.wav")]).exit_code == 1


def test_a_file_that_is_not_there_ends_with_2(tmp_path: Path) -> None:
    assert runner.invoke(app, ["detect", str(tmp_path / "none.wav")]).exit_code == 2
