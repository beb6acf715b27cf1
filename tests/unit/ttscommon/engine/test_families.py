"""Which family a folder is of, and which codec: told by tensors, and by nothing else's."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ttscommon.engine.checkpoint import CheckpointError
from ttsfamilies.base.facts import digest_of
from ttsfamilies.cosyvoice.s3_flow.synthetic import write_codec
from ttsfamilies.cosyvoice.synthetic import write_index
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


MIMI = FAMILIES.codecs["mimi"]


def write(folder: Path, talker: float = 0.0, codec: float = 0.0, frames: int = 8) -> Path:
    """A talker's checkpoint with its codec, each in all numbers."""
    folder.mkdir()
    config = {"model_type": "csm", "hidden_size": talker, "codec_config": {"frames": frames}}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    tensors = {"lm_head.weight": torch.full((1000,), talker)}
    tensors |= {f"codec_model.{name}": torch.full((3, 4), codec) for name in "ab"}
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_a_codecs_digest_is_of_its_own_numbers_and_sizes_alone(tmp_path: Path) -> None:
    folders = (
        write(tmp_path / "a"),
        write(tmp_path / "b", talker=2.0),
        write(tmp_path / "c", codec=1.0),
        write(tmp_path / "d", frames=9),
    )
    first, same, *others = (digest_of(MIMI, folder) for folder in folders)
    assert first == same
    assert len({first, *others}) == 3


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    path = folder / "model.safetensors"
    data = path.read_bytes()
    os.truncate(path, 8 + int.from_bytes(data[:8], "little") + 4)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is truncated"):
        digest_of(MIMI, folder)


def test_a_codec_in_a_folder_of_its_own_is_hashed_whole(tmp_path: Path) -> None:
    folder = write(tmp_path / "a")
    alone = tmp_path / "mimi"
    alone.mkdir()
    (alone / "config.json").write_text('{"model_type": "mimi"}', "utf-8")
    save_file({"upsample.conv.weight": torch.zeros(3)}, alone / "model.safetensors")
    assert digest_of(MIMI, alone) != digest_of(MIMI, folder)


def blanked(path: Path) -> None:
    """The file keeps its header, and its numbers are a hole."""
    data = path.read_bytes()
    os.truncate(path, 8 + int.from_bytes(data[:8], "little"))
    os.truncate(path, len(data))


@pytest.mark.parametrize("kind", ["cosyvoice3", pytest.param("cosyvoice2", marks=pytest.mark.slow)])
def test_of_cosyvoice_the_language_model_is_not_read(tmp_path: Path, kind: str) -> None:
    codec = FAMILIES.codecs["cosyvoice"]
    write_codec(tmp_path, kind)
    flow, talker = tmp_path / "flow.safetensors", tmp_path / "llm.safetensors"
    (tmp_path / "model.safetensors").rename(flow)
    save_file({"llm_decoder.weight": torch.ones(3), "llm.model.norm": torch.ones(3)}, talker)
    write_index(tmp_path)
    before = digest_of(codec, tmp_path)
    blanked(talker)
    assert digest_of(codec, tmp_path) == before
    assert all(name.startswith(codec.prefixes) for name in load_file(flow))
    blanked(flow)
    assert digest_of(codec, tmp_path) != before


def test_of_chatterbox_only_what_makes_sound_is_read(tmp_path: Path) -> None:
    codec = FAMILIES.codecs["chatterbox"]
    write_codec(tmp_path, "chatterbox_turbo")
    (sound,) = tmp_path.glob("*.safetensors")
    talker, voice = tmp_path / "t3.safetensors", tmp_path / "conds.safetensors"
    save_file({"speech_emb.weight": torch.ones(3)}, talker)
    save_file({"gen.embedding": torch.ones(3), "t3.speaker_emb": torch.ones(3)}, voice)
    write_index(tmp_path)
    before = digest_of(codec, tmp_path)
    blanked(talker)
    assert digest_of(codec, tmp_path) == before
    assert all(name.startswith(codec.prefixes) for name in load_file(sound))
    (tmp_path / "config.json").write_text('{"chunk_tokens": 25}', "utf-8")
    on_the_grid = digest_of(codec, tmp_path)
    blanked(voice)
    assert len({before, on_the_grid, digest_of(codec, tmp_path)}) == 3
