"""What a checkpoint says of itself, and what of it is not served."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ttscommon.engine.checkpoint import CheckpointError
from ttsfamilies.known import FAMILIES
from ttsfamilies.qwen3_tts.config import (
    GenerationConfig,
    TalkerConfig,
    load_config,
    load_generation_config,
)

TOP = (
    *("model_type", "tokenizer_type", "tts_model_type", "tts_model_size"),
    *("tts_pad_token_id", "speaker_encoder_config"),
)


def changed(folder: Path, tmp_path: Path, **changes: Any) -> Path:
    """config.json with changes, at the top or in `talker_config`."""
    content = json.loads((folder / "config.json").read_text())
    for name, value in changes.items():
        part = content if name in TOP else content["talker_config"]
        part[name] = value
    (tmp_path / "config.json").write_text(json.dumps(content))
    return tmp_path


def test_everything_is_read_from_the_file(config: TalkerConfig) -> None:
    c = config.talker_config
    assert (c.hidden_size, c.num_hidden_layers, c.codebooks) == (48, 3, 16)
    assert c.codec_eos_token_id == 2150
    assert c.spk_is_dialect["eric"] == "sichuan_dialect"
    assert config.tts_eos_token_id == config.tts_pad_token_id + 2


def test_dialects_are_no_languages_that_may_be_asked_for(config: TalkerConfig) -> None:
    assert "english" in config.languages
    assert "auto" in config.languages
    assert not [name for name in config.languages if "dialect" in name]


@pytest.mark.parametrize(
    ("kind", "size", "takes"),
    [
        ("custom_voice", "1b7", True),
        ("custom_voice", "0b6", False),
        ("voice_design", "1b7", True),
        ("base", "1b7", False),
    ],
)
def test_who_takes_instructions(
    custom: Path, tmp_path: Path, kind: str, size: str, takes: bool
) -> None:
    speaker = {"enc_dim": 48}
    folder = changed(
        custom,
        tmp_path,
        tts_model_type=kind,
        tts_model_size=size,
        speaker_encoder_config=speaker,
    )
    assert load_config(folder).takes_instructions is takes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "qwen3"}, "model_type is 'qwen3'"),
        ({"tokenizer_type": "qwen3_tts_tokenizer_25hz"}, "only the 12 Hz one"),
        ({"tts_model_type": "singer"}, "singer"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"use_sliding_window": True}, "sliding windows"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "yarn"),
        ({"rope_scaling": {"type": "yarn", "rope_type": "default"}}, "yarn"),
        ({"rope_theta": 0.0}, "rope_theta is 0.0, not a positive number"),
        ({"rms_norm_eps": -1e-6}, "rms_norm_eps is -1e-06"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, not from 1 to 512"),
        ({"hidden_size": 0}, "hidden_size is 0"),
        ({"head_dim": 33}, "head_dim 33 is odd"),
        ({"num_key_value_heads": 3}, "no multiple of 3 KV heads"),
        ({"vocab_size": 4096}, "vocab_size 4096"),
        ({"codec_bos_id": 3072}, "id 'codec_bos_id' is 3072, not one of 3072"),
        ({"codec_language_id": {"english": -1}}, "language 'english' is -1"),
        ({"spk_id": {"mira": 5000}}, "speaker 'mira' is 5000"),
        ({"spk_id": {"mira": 3000, "Mira": 3001}}, "two speakers are called 'mira'"),
        ({"spk_is_dialect": {"eric": "klingon"}}, "'eric' speaks 'klingon', which has no id"),
        ({"tts_pad_token_id": 10**7}, "text id 10000000 is not one of"),
        (
            {"tts_model_type": "base", "speaker_encoder_config": {"enc_dim": 49}},
            "enc_dim 49 is not the talker's hidden_size",
        ),
        (
            {"tts_model_type": "base", "speaker_encoder_config": {"enc_res2net_scale": 7}},
            "enc_dim 1024|enc_res2net_scale 7",
        ),
        ({"num_code_groups": 8}, "disagree on num_code_groups"),
        ({"hidden_size": "48"}, "talker_config.hidden_size"),
    ],
)
def test_what_is_not_served_is_refused_by_name(
    custom: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message):
        load_config(changed(custom, tmp_path, **changes))


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


def test_names_are_known_in_any_case(custom: Path, tmp_path: Path) -> None:
    folder = changed(
        custom,
        tmp_path,
        spk_id={"Mira": 3000},
        spk_is_dialect={"Mira": "Sichuan_Dialect"},
        codec_language_id={"English": 2050, "sichuan_dialect": 2062},
    )
    talker = load_config(folder).talker_config
    assert talker.spk_id == {"mira": 3000}
    assert talker.spk_is_dialect == {"mira": "sichuan_dialect"}
    assert "english" in load_config(folder).languages


def test_a_config_that_cannot_be_parsed_is_named(custom: Path, tmp_path: Path) -> None:
    folder = changed(custom, tmp_path, rope_theta=float("nan"))
    assert "NaN" in (folder / "config.json").read_text()
    for read in (FAMILIES.of, load_config):
        with pytest.raises(CheckpointError, match=r"config\.json is not as expected"):
            read(tmp_path)
