"""Folders of Chatterbox and CosyVoice in the vocoder."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.options import CodecOptions
from ttsfamilies.chatterbox import codec as chatterbox
from ttsfamilies.cosyvoice import codec as cosyvoice
from ttsfamilies.cosyvoice.s3_flow.synthetic import write_codec

ASKED = SpeechRequest("r", "m", "default", "text")


@pytest.fixture(scope="module")
def turbo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a built-in voice, as `antiphon convert` leaves it: an index over the files."""
    folder = tmp_path_factory.mktemp("turbo")
    write_codec(folder, "chatterbox_turbo")
    voice = {
        "gen.prompt_token": torch.arange(12)[None],
        "gen.prompt_feat": torch.zeros(1, 25, 80),
        "gen.embedding": torch.ones(1, 192),
    }
    voice = {name: tensor.float() for name, tensor in voice.items()}
    save_file(voice, folder / "conds.safetensors")
    files = sorted(folder.glob("*.safetensors"))
    weights = {name: path.name for path in files for name in load_file(path)}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weights}))
    return folder


def test_chatterbox_is_whole_by_default_and_has_its_own_voice(turbo: Path) -> None:
    codec = chatterbox.load("m", turbo, CodecOptions())
    assert (codec.spec.left, codec.spec.lag_samples, codec.silences) == ("left", 0, False)
    assert codec.spec.solver_steps == 2
    found = codec.conditions(ASKED)
    assert found is not None
    assert found["token"].tolist() == list(range(12))
    assert found["mel"].shape == (24, 80)
    assert found["speaker"].shape == (1, 192)


def test_chatterbox_on_the_grid_is_asked_for_in_its_config(turbo: Path) -> None:
    config = turbo / "config.json"
    config.write_text('{"model_type": "chatterbox", "chunk_tokens": 25}')
    codec = chatterbox.load("m", turbo, CodecOptions())
    assert (codec.spec.solves, codec.silences) == (True, True)
    config.write_text('{"model_type": "chatterbox", "chunk_tokens": 10}')
    with pytest.raises(CheckpointError, match="chunk_tokens is 10, not 0 or 25"):
        chatterbox.load("m", turbo, CodecOptions())
    config.unlink()


def test_cosyvoice_needs_a_recording_and_its_tensors(tmp_path: Path) -> None:
    write_codec(tmp_path, "cosyvoice3")
    (path,) = tmp_path.glob("*.safetensors")
    tensors = load_file(path) | {"llm_decoder.weight": torch.zeros(2, 2)}
    save_file(tensors, path)
    codec = cosyvoice.load("m", tmp_path, CodecOptions())
    codec.warm_up([(1, 1), (2, 16)])
    assert codec.measured_step_s.keys() == {(1, 1), (2, 16)}
    with pytest.raises(BadRequest, match="needs the recording"):
        codec.conditions(ASKED)
    save_file({"llm_decoder.weight": torch.zeros(2, 2)}, path)
    with pytest.raises(CheckpointError, match="holds no flow of S3 tokens"):
        cosyvoice.load("m", tmp_path, CodecOptions())
