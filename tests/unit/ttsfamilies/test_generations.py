"""A folder that today's transformers saved again speaks as the one that was published."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from talker.engine.engine import Engine
from talker.synthesis import synthesise
from tests.generations import save_again
from ttscommon.engine.checkpoint import CheckpointError, renamed
from ttscommon.engine.nn.weights import Shards
from ttscommon.process.metrics import Metrics
from ttscommon.wire.messages import Sampling, SpeechRequest
from ttsfamilies.base import synthetic
from ttsfamilies.base.lm.qwen2_tokenizer import Qwen2Tokenizer
from ttsfamilies.talkers import load

TEXT = "It's the end of the world, and 3 of you sing: how odd!"
FAMILIES = ["qwen3_tts", "qwen3_omni", "step_audio2", "cosyvoice", "csm", "orpheus", "higgs_audio"]


def spoken(folder: Path) -> dict[str, Any]:
    """Frames of TEXT by the talker of a folder."""
    torch.set_num_threads(1)
    family = load("m", folder)
    voice = min((voice.id for voice in family.spec.voices), default="")  # in whatever order
    request = SpeechRequest("r", "m", voice, TEXT, seed=7, sampling=Sampling(max_new_tokens=12))
    engine = Engine(family, slots=1, blocks=256, metrics=Metrics())
    (one,) = synthesise(engine, [request], reference=family.example_reference())
    assert one.chunks, "or there is nothing to compare"
    return dict(one.arrays)


@pytest.mark.parametrize("family", FAMILIES)
def test_both_generations_of_a_folder_speak_the_same_frames(family: str, tmp_path: Path) -> None:
    published = tmp_path / "published"
    synthetic.family(family).written(published, "", "", 3)
    saved = Path(shutil.copytree(published, tmp_path / "saved"))
    save_again(saved)
    assert not any(saved.rglob("vocab.json"))
    if family == "qwen3_omni":  # whose experts are in one tensor then
        assert "talker.model.layers.0.mlp.experts.gate_up_proj" in Shards.of(saved).shapes
    assert "rope_parameters" in "".join(p.read_text() for p in saved.rglob("config.json"))
    one, other = spoken(published), spoken(saved)
    assert one.keys() == other.keys()
    for name, rows in one.items():
        np.testing.assert_array_equal(rows, other[name], err_msg=name)


def test_a_tokenizer_that_divides_texts_otherwise_is_refused(tmp_path: Path) -> None:
    synthetic.family("qwen3_tts").written(tmp_path, "", "", 3)
    save_again(tmp_path)
    tokenizer = tmp_path / "tokenizer.json"
    content = tokenizer.read_text("utf-8")
    tokenizer.write_text(content.replace(r"\\p{N}|", r"\\p{N}{1,3}|"), "utf-8")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json divides texts otherwise"):
        Qwen2Tokenizer.load(tmp_path)


def test_a_rotation_that_is_scaled_keeps_its_scaling() -> None:
    rope = {"rope_type": "llama3", "factor": 32.0, "rope_theta": 500_000.0}
    assert renamed({"part": {"rope_parameters": rope}})["part"] == {
        "rope_parameters": rope,
        "rope_theta": 500_000.0,
        "rope_scaling": {"rope_type": "llama3", "factor": 32.0},
    }


def test_a_rotation_that_is_named_as_before_comes_first() -> None:
    both = {"rope_theta": 1.0, "rope_parameters": {"rope_type": "default", "rope_theta": 2.0}}
    assert renamed(both)["rope_theta"] == 1.0
