"""Codecs are told apart by their own tensors, which are all that is read of a talker's files."""

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


def test_another_talker_with_the_same_codec_has_the_same_digest(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a"), write(tmp_path / "b", talker=2.0)
    assert digest_of(MIMI, one) == digest_of(MIMI, other)


@pytest.mark.parametrize("change", [{"codec": 1.0}, {"frames": 9}])
def test_other_numbers_or_sizes_of_the_codec_have_another(
    tmp_path: Path, change: dict[str, int]
) -> None:
    assert digest_of(MIMI, write(tmp_path / "a")) != digest_of(
        MIMI, write(tmp_path / "b", **change)
    )


def test_of_a_talker_nothing_but_its_codec_is_read(tmp_path: Path) -> None:
    """Its numbers are first in the file, so that a hole in them would have to be crossed."""
    folder = write(tmp_path / "a")
    before = digest_of(MIMI, folder)
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    first = 8 + int.from_bytes(data[:8], "little") + header["lm_head.weight"]["data_offsets"][0]
    data[first : first + 400] = os.urandom(400)
    path.write_bytes(data)
    assert digest_of(MIMI, folder) == before


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
