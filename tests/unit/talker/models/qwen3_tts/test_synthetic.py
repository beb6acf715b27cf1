"""Synthetic checkpoints are a function of their seed, and small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from talker.models.qwen3_tts.synthetic import write_checkpoint
from talker.models.qwen3_tts.synthetic.tokenizer import merges, vocabulary


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


def test_the_command_line_writes_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "talker.models.qwen3_tts.synthetic", str(tmp_path)]
    done = subprocess.run(
        [*command, "--kind", "voice_design"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "speech_tokenizer" / "model.safetensors").exists()
