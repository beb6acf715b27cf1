"""Synthetic checkpoints: small, a function of their seed, and written by one command."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from antiphon_bench.cli import app
from ttsfamilies import codecs, talkers
from ttsfamilies.base import synthetic
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint


def test_the_same_seed_gives_the_same_bits_and_another_gives_others(tmp_path: Path) -> None:
    for name, seed in (("first", 1), ("again", 1), ("other", 2)):
        write_checkpoint(tmp_path / name, "tiny", "custom_voice", seed=seed)
    first, again, other = (
        load_file(tmp_path / name / "model.safetensors") for name in ("first", "again", "other")
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["talker.codec_head.weight"], other["talker.codec_head.weight"])


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
