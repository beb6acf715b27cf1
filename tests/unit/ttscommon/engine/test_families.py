"""Which family a folder is of."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ttscommon.engine.checkpoint import CheckpointError
from ttsfamilies.known import FAMILIES


def folder_of(path: Path, config: object = None, tensors: tuple[str, ...] = ()) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (path / "config.json").write_text(json.dumps(config))
    if tensors:
        save_file(
            {name: torch.zeros(1) for name in tensors}, path / "model.safetensors", {"format": "pt"}
        )
    return path


@pytest.mark.parametrize(
    ("config", "family"),
    [
        ({"model_type": "qwen3_tts"}, "qwen3_tts"),
        ({"format": 1, "family": "vesper"}, "vesper"),
        ({"model_type": "llama", "vocab_size": 156_940}, "orpheus"),
        ({"istftnet": {}, "plbert": {}, "vocab": {}}, "kokoro"),
    ],
)
def test_a_config_names_the_family(tmp_path: Path, config: object, family: str) -> None:
    assert FAMILIES.of(folder_of(tmp_path, config)).name == family


def test_without_a_config_the_tensors_name_the_family(tmp_path: Path) -> None:
    tensors = ("talker.model.codec_embedding.weight", "talker.codec_head.weight")
    assert FAMILIES.of(folder_of(tmp_path, tensors=tensors)).name == "qwen3_tts"


@pytest.mark.parametrize(
    "config", [{"model_type": "bert"}, {"model_type": "llama", "vocab_size": 128256}, {}]
)
def test_an_unknown_family_is_refused_with_the_known_ones(tmp_path: Path, config: object) -> None:
    folder = folder_of(tmp_path, config, ("bert.embeddings.weight",))
    for tell in (FAMILIES.of, FAMILIES.codec_of):
        with pytest.raises(CheckpointError, match=r"no known .*; known: .*Qwen3-TTS"):
            tell(folder)


def test_a_codec_is_found_within_its_talkers_checkpoint_or_by_itself(tmp_path: Path) -> None:
    talker = folder_of(tmp_path / "talker", {"model_type": "qwen3_tts"})
    alone = folder_of(tmp_path / "alone", {"model_type": "qwen3_tts_tokenizer_12hz"})
    codec, folder = FAMILIES.codec_of(talker)
    assert (codec.name, folder) == ("qwen3_tts", talker / "speech_tokenizer")
    assert FAMILIES.codec_of(alone) == (codec, alone)


def test_an_empty_or_damaged_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is empty: download a checkpoint"):
        FAMILIES.of(folder_of(tmp_path / "empty"))
    damaged = folder_of(tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(CheckpointError, match="header claims"):
        FAMILIES.of(damaged)
    (damaged / "model.safetensors").write_bytes(b"\x10" + b"\0" * 7 + b"{")
    with pytest.raises(CheckpointError, match="truncated"):
        FAMILIES.of(damaged)


def test_every_family_and_codec_has_a_name_a_folder_and_licences_of_its_own() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        assert all((family.title, family.code, family.weights, family.codec.weights))
        assert family.codec.inside or family.codec.published
