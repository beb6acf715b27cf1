"""Loading a checkpoint: types, and what is wrong with damaged ones."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ttscommon.engine.checkpoint import CheckpointError
from ttsfamilies.qwen3_tts.family import load
from ttsfamilies.qwen3_tts.net import load_encoders, load_talker
from ttsfamilies.qwen3_tts.prompt import TurnTokenizer


@pytest.fixture
def copy(custom: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(custom, tmp_path / "copy"))


def test_parameters_have_the_type_that_was_asked_for(custom: Path) -> None:
    net = load_talker(custom, dtype="bfloat16")
    assert net.codec_head.weight.dtype == torch.bfloat16
    narrow = net.predictor.decoder.state_dict()["blocks.0.attention.qkv.weight"]
    assert narrow.dtype == torch.float32
    assert not any(p.requires_grad for p in net.parameters())


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "tokenizer_config.json"])
def test_a_missing_tokenizer_file_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        TurnTokenizer.load(copy)


def test_a_tokenizer_whose_files_disagree_is_refused(copy: Path) -> None:
    with (copy / "merges.txt").open("a") as file:
        file.write("neither here\n")
    with pytest.raises(CheckpointError, match=r"merges\.txt does not fit vocab\.json"):
        TurnTokenizer.load(copy)


def test_only_base_models_have_encoders(custom: Path, base: Path) -> None:
    with pytest.raises(CheckpointError, match="clones no voices"):
        load_encoders(custom)
    speaker, codec = load_encoders(base)
    assert speaker(torch.zeros(1, 24_000)).shape == (1, 48)
    assert codec(torch.zeros(24_000)).shape == (13, 16)


def test_a_base_model_without_its_codec_says_so(base: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(base, tmp_path / "copy"))
    shutil.rmtree(copy / "speech_tokenizer")
    with pytest.raises(CheckpointError, match=r"speech_tokenizer/config\.json cannot be read"):
        load_encoders(copy)


def test_bytes_that_are_to_be_scaled_are_refused(copy: Path) -> None:
    name, path = "talker.codec_head.weight", copy / "model.safetensors"
    tensors = load_file(path)
    tensors[name] = tensors[name].to(torch.float8_e4m3fn)
    save_file(tensors, path)
    with pytest.raises(CheckpointError, match=f"{name} .*quantised checkpoints are not served"):
        load_talker(copy)


def test_a_config_far_larger_than_its_tensors_asks_for_no_memory(copy: Path) -> None:
    content = json.loads((copy / "config.json").read_text())
    content["talker_config"] |= {"text_vocab_size": 1 << 20, "text_hidden_size": 1 << 20}
    (copy / "config.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"but config\.json makes it"):
        load_talker(copy)


def test_a_tokenizer_with_more_ids_than_the_model_is_refused(copy: Path) -> None:
    content = json.loads((copy / "vocab.json").read_text())
    (copy / "vocab.json").write_text(json.dumps(content | {"zzz": 10**6}))
    with pytest.raises(CheckpointError, match="the tokenizer has ids up to 1000000"):
        load("m", copy)
