"""One command writes a checkpoint of any family, and services load what it wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from antiphon_bench.cli import app
from ttsfamilies import codecs, talkers
from ttsfamilies.base import synthetic


def write(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["checkpoint", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("family", synthetic.names())
def test_every_family_has_a_writer(family: str) -> None:
    assert synthetic.family(family).holds


@pytest.mark.parametrize("family", ["csm", "qwen3_tts"])
def test_both_stages_load_what_it_wrote(family: str, tmp_path: Path) -> None:
    write(family, str(tmp_path), "--seed", "3")
    assert talkers.load("tiny", tmp_path).spec.name == "tiny"
    assert codecs.load("tiny", tmp_path).spec.sample_rate == 24_000


def test_a_codec_alone_is_written_into_an_empty_folder(tmp_path: Path) -> None:
    said = write("mimi", str(tmp_path / "mimi"))
    assert "seed 0" in said
    assert codecs.load("tiny", tmp_path / "mimi").spec.sample_rate == 24_000


@pytest.mark.parametrize(
    ("arguments", "offered"),
    [
        (["latin", "there"], "qwen3_tts"),
        (["qwen3_tts", "there", "--size", "9b"], "1.7b"),
        (["snac", "there", "--kind", "base"], "none"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(
    arguments: list[str], offered: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["checkpoint", *arguments])
    assert result.exit_code == 2
    assert offered in result.output
    assert not Path("there").exists()


def test_the_command_names_the_families() -> None:
    said = CliRunner().invoke(app, ["checkpoint", "--help"], terminal_width=1000).output
    assert all(name in said for name in synthetic.names())
