"""Synthetic checkpoints are a function of their seed, and small."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ttsfamilies.base.synthetic.tokenizers import merges, vocabulary
from ttsfamilies.qwen3_tts.synthetic import write_checkpoint


@pytest.fixture(scope="module")
def custom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("custom")
    write_checkpoint(folder, "tiny", "custom_voice", seed=1)
    return folder


def test_the_same_seed_gives_the_same_bits_and_another_gives_others(
    custom: Path, tmp_path: Path
) -> None:
    for name, seed in (("again", 1), ("other", 2)):
        write_checkpoint(tmp_path / name, "tiny", "custom_voice", seed=seed)
    first = load_file(custom / "model.safetensors")
    again = load_file(tmp_path / "again" / "model.safetensors")
    other = load_file(tmp_path / "other" / "model.safetensors")
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["talker.codec_head.weight"], other["talker.codec_head.weight"])


def test_the_end_can_be_made_louder(custom: Path, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "tiny", "custom_voice", seed=1, ending=3.0)
    plain, loud = (
        load_file(folder / "model.safetensors")["talker.codec_head.weight"]
        for folder in (custom, tmp_path)
    )
    assert torch.equal(loud[2150], 3 * plain[2150])
    assert torch.equal(loud[:2150], plain[:2150])


def test_every_merge_makes_a_token() -> None:
    vocab = vocabulary()
    assert all(left + right in vocab for left, right in merges())
    assert len(vocabulary(1000)) == 1000
