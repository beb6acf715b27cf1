"""`antiphon convert` says what it wrote, or why it wrote nothing."""

import json
from pathlib import Path

import pytest
from safetensors.numpy import save_file
from typer.testing import CliRunner

from antiphon import files
from antiphon.app import app
from gateway.audio import AudioFormat, Provenance
from gateway.audio.provenance import DIGITAL_SOURCE_TYPE
from tests.unit.gateway.audio.test_provenance import made
from tests.unit.gateway.audio.tiny_perth import weights
from ttscommon.engine.conversion import ConversionLimits


def test_what_cannot_be_converted_is_an_error_with_its_reason(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["convert", str(tmp_path)])
    assert result.exit_code == 2
    assert "nothing to convert" in result.stderr


def test_options_reach_the_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def converted(
        folder: Path, *, file: str, into: Path | None, limits: ConversionLimits
    ) -> list[Path]:
        asked.extend((folder, file, into, limits))
        return [tmp_path / "model.safetensors"]

    monkeypatch.setattr(files, "convert", converted)
    options = ["--file", "a.pth", "--output", "there", "--memory-gb", "2", "--timeout-s", "9"]
    result = CliRunner().invoke(app, ["convert", str(tmp_path), *options])
    assert result.output.strip() == str(tmp_path / "model.safetensors")
    assert asked == [tmp_path, "a.pth", Path("there"), ConversionLimits(2 << 30, 9.0)]


runner = CliRunner()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "speech.mp3"
    path.write_bytes(made(AudioFormat("mp3"), Provenance("vesper", "Harbour Radio")))
    return path


def test_the_origin_is_shown_and_that_no_mark_was_looked_for(file: Path) -> None:
    told = runner.invoke(app, ["detect", str(file)])
    assert told.exit_code == 0
    for part in (DIGITAL_SOURCE_TYPE, "Antiphon vesper", "Harbour Radio", "was not looked at"):
        assert part in told.output
    for_programs = json.loads(runner.invoke(app, ["detect", "--json", str(file)]).output)
    assert [tag["GeneratedBy"] for tag in for_programs["tags"]] == ["Harbour Radio"]
    assert for_programs["watermark"] is None


@pytest.mark.parametrize("data", [b"", b"a person spoke"])
def test_a_file_that_says_nothing_ends_with_1(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.wav").write_bytes(data)
    assert runner.invoke(app, ["detect", str(tmp_path / "a.wav")]).exit_code == 1


def test_a_file_that_is_not_there_ends_with_2(tmp_path: Path) -> None:
    assert runner.invoke(app, ["detect", str(tmp_path / "none.wav")]).exit_code == 2


def test_the_sound_is_looked_at_where_weights_are_given(file: Path, tmp_path: Path) -> None:
    save_file(weights(), tmp_path / "perth.safetensors")
    given = ["detect", "--json", "--watermark", str(tmp_path / "perth.safetensors"), str(file)]
    (cut,) = json.loads(runner.invoke(app, given).output)["watermark"]
    assert cut["start_s"] == 0.0
    assert 0.3 < cut["end_s"] < 0.5
    assert 0.0 <= cut["score"] <= 1.0


def test_other_weights_are_refused(file: Path, tmp_path: Path) -> None:
    save_file({"a": weights()["encoder.layers.0.conv.bias"]}, tmp_path / "other.safetensors")
    given = ["detect", "--watermark", str(tmp_path / "other.safetensors"), str(file)]
    told = runner.invoke(app, given)
    assert told.exit_code == 2
    assert "not Perth's" in told.output
