"""What a checkpoint says of itself, what is loaded of it, and what of it is not served."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.device import device
from ttscommon.engine.inflight import DeviceError
from ttsfamilies.known import FAMILIES
from ttsfamilies.qwen3_tts.config import (
    GenerationConfig,
    TalkerConfig,
    load_config,
    load_generation_config,
)
from ttsfamilies.qwen3_tts.family import load
from ttsfamilies.qwen3_tts.net import load_encoders, load_talker
from ttsfamilies.qwen3_tts.prompt import TurnTokenizer
from ttsfamilies.qwen3_tts.sizes import Kind, model_config
from ttsfamilies.talkers import load as load_family


def written(folder: Path, kind: Kind = "custom_voice", **changes: Any) -> Path:
    """A config.json, with changes in `talker_config`; models of 0.6B are small."""
    small = changes.pop("small", False)
    content = model_config("tiny", kind, 500, small=small)
    content["talker_config"] |= changes
    (folder / "config.json").write_text(json.dumps(content))
    return folder


def test_dialects_are_no_languages_that_may_be_asked_for(config: TalkerConfig) -> None:
    assert "english" in config.languages
    assert "auto" in config.languages
    assert not [name for name in config.languages if "dialect" in name]


@pytest.mark.parametrize(
    ("kind", "small", "takes"),
    [
        ("custom_voice", False, True),
        ("custom_voice", True, False),
        ("voice_design", False, True),
        ("base", False, False),
    ],
)
def test_who_takes_instructions(tmp_path: Path, kind: Kind, small: bool, takes: bool) -> None:
    assert load_config(written(tmp_path, kind, small=small)).takes_instructions is takes


def test_sampling_defaults_come_from_generation_config(custom: Path, tmp_path: Path) -> None:
    assert load_generation_config(custom).max_new_tokens == 8192
    assert load_generation_config(tmp_path) == GenerationConfig()
    shutil.copy(custom / "generation_config.json", tmp_path)
    (tmp_path / "generation_config.json").write_text('{"top_k": "many"}')
    with pytest.raises(CheckpointError, match="top_k"):
        load_generation_config(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": -0.5}, "temperature is -0.5"),
        ({"subtalker_temperature": 1000.0}, "subtalker_temperature is 1000.0"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"subtalker_top_k": -1}, "subtalker_top_k is -1"),
        ({"repetition_penalty": -1.0}, "repetition_penalty is -1.0"),
        ({"max_new_tokens": 1}, "max_new_tokens is 1"),
    ],
)
def test_sampling_that_gives_no_speech_is_refused(
    tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps(wrong))
    with pytest.raises(CheckpointError, match=message):
        load_generation_config(tmp_path)


def test_names_are_known_in_any_case(tmp_path: Path) -> None:
    written(
        tmp_path,
        spk_id={"Mira": 3000},
        spk_is_dialect={"Mira": "Sichuan_Dialect"},
        codec_language_id={"English": 2050, "sichuan_dialect": 2062},
    )
    talker = load_config(tmp_path).talker_config
    assert talker.spk_id == {"mira": 3000}
    assert talker.spk_is_dialect == {"mira": "sichuan_dialect"}
    assert "english" in load_config(tmp_path).languages


def test_a_config_that_cannot_be_parsed_is_named(tmp_path: Path) -> None:
    written(tmp_path, rope_theta=float("nan"))
    assert "NaN" in (tmp_path / "config.json").read_text()
    for read in (FAMILIES.of, load_config):
        with pytest.raises(CheckpointError, match=r"config\.json is not as expected"):
            read(tmp_path)


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


def test_a_talkers_work_goes_first_where_a_vocoder_shares_its_gpu(
    custom: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(index: int, priority: int) -> None:
        raise DeviceError(f"{index} {priority}")

    monkeypatch.setattr(device, "Cuda", refused)
    with pytest.raises(DeviceError, match="1 -1"):
        load_family("m", custom, device="cuda:1")
