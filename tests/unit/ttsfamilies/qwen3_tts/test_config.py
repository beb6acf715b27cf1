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
from ttsfamilies.qwen3_tts.sizes import Kind, model_config


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
