"""What a checkpoint says of itself, and what of it is not served."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from talker.models.qwen3_tts.config import (
    GenerationConfig,
    TalkerConfig,
    load_config,
    load_generation_config,
)
from ttscommon.engine.checkpoint import CheckpointError

TOP = ("model_type", "tokenizer_type", "tts_model_type", "tts_model_size")


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
    folder = changed(custom, tmp_path, tts_model_type=kind, tts_model_size=size)
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
