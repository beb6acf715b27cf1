"""Folders of Chatterbox and CosyVoice in the vocoder."""

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
from ttsfamilies.cosyvoice.synthetic import write_index

ASKED = SpeechRequest("r", "m", "default", "text")


def test_chatterbox_is_whole_or_on_the_grid_and_has_its_own_voice(tmp_path: Path) -> None:
    """As `antiphon convert` leaves a folder: an index over the files."""
    write_codec(tmp_path, "chatterbox_turbo")
    voice = {
        "gen.prompt_token": torch.arange(12.0)[None],
        "gen.prompt_feat": torch.zeros(1, 25, 80),
        "gen.embedding": torch.ones(1, 192),
    }
    save_file(voice, tmp_path / "conds.safetensors")
    write_index(tmp_path)
    codec = chatterbox.load("m", tmp_path, CodecOptions())
    assert (codec.spec.left, codec.spec.lag_samples, codec.silences) == ("left", 0, False)
    assert codec.spec.solver_steps == 2
    found = codec.conditions(ASKED)
    assert found is not None
    assert found["token"].tolist() == list(range(12))
    assert (found["mel"].shape, found["speaker"].shape) == ((24, 80), (1, 192))
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "chatterbox", "chunk_tokens": 25}')
    codec = chatterbox.load("m", tmp_path, CodecOptions())
    assert (codec.spec.solves, codec.silences) == (True, True)
    config.write_text('{"model_type": "chatterbox", "chunk_tokens": 10}')
    with pytest.raises(CheckpointError, match="chunk_tokens is 10, not 0 or 25"):
        chatterbox.load("m", tmp_path, CodecOptions())


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
