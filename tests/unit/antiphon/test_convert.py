"""`antiphon convert` says what it wrote, or why it wrote nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from antiphon import convert
from antiphon.app import app
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

    monkeypatch.setattr(convert, "convert", converted)
    options = ["--file", "a.pth", "--output", "there", "--memory-gb", "2", "--timeout-s", "9"]
    result = CliRunner().invoke(app, ["convert", str(tmp_path), *options])
    assert result.output.strip() == str(tmp_path / "model.safetensors")
    assert asked == [tmp_path, "a.pth", Path("there"), ConversionLimits(2 << 30, 9.0)]
