"""Configs that are read, in either form, and those that are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ttscommon.engine.checkpoint import CheckpointError
from ttsfamilies.qwen3_omni.codec import load_config as load_codec_config
from ttsfamilies.qwen3_omni.config import load_config
from ttsfamilies.qwen3_omni.synthetic import config as written


def load(folder: Path, content: dict[str, Any]) -> Any:
    (folder / "config.json").write_text(json.dumps(content))
    return load_config(folder)


def test_the_published_sizes_of_heads_and_experts_are_read(tmp_path: Path) -> None:
    found = load(tmp_path, written(500, published=True)).talker_config.text_config
    assert (found.num_experts, found.num_experts_per_tok) == (128, 6)
    assert found.sections == (24, 20, 20)


def test_rotations_are_read_as_newer_packages_write_them(tmp_path: Path) -> None:
    content = written(500)
    text = content["talker_config"]["text_config"]
    told = {**text.pop("rope_scaling"), "rope_theta": text.pop("rope_theta")}
    text["rope_parameters"] = told
    codec = content["code2wav_config"]
    codec["rope_parameters"] = {"rope_theta": codec.pop("rope_theta")}
    found = load(tmp_path, content).talker_config.text_config
    assert (found.theta, found.sections) == (1_000_000, (2, 1, 1))
    assert load_codec_config(tmp_path).theta == 10_000


def test_the_codec_lags_by_555_samples(tmp_path: Path) -> None:
    load(tmp_path, written(500))
    found = load_codec_config(tmp_path)
    assert (found.lag_samples, found.frame_samples) == (555, 1920)


def _talker(name: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["talker_config"]["text_config"].update({name: value})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content.update(enable_audio_output=False), "no talker"),
        (lambda content: content.update(model_type="qwen2_5_omni"), "model_type"),
        (_talker("num_experts_per_tok", 9), "9 experts a token, of 8"),
        (_talker("mlp_only_layers", [0]), "without experts"),
        (_talker("decoder_sparse_step", 2), "without experts"),
        (_talker("rope_scaling", {"mrope_section": [2, 2, 2]}), "mrope_section"),
        (_talker("rope_theta", None), "rope_theta"),
        (_talker("vocab_size", 4096), "vocab_size"),
        (_talker("hidden_act", "gelu"), "hidden_act"),
    ],
)
def test_what_cannot_be_served_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    content = written(500)
    change(content)
    with pytest.raises(CheckpointError, match=said):
        load(tmp_path, content)
