"""Finding and reading a checkpoint's files, and refusing what is none."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from ttscommon.engine.checkpoint import CheckpointError, find_checkpoint, read_json, tensor_files
from ttscommon.wire.errors import VoiceError


@dataclass(frozen=True)
class Form:
    size: int
    name: str = "plain"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        ('{"size": "3"}', r"Expected `int`, got `str` - at `\$\.size`"),
        ("{}", "missing required field `size`"),
    ],
)
def test_bad_json_says_what_is_wrong_and_where(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(CheckpointError, match=message) as caught:
        read_json(path, Form)
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, VoiceError)


def test_one_file_or_the_shards_of_an_index(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    assert tensor_files(tmp_path) == [tmp_path / "model.safetensors"]
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for name in names:
        (tmp_path / name).touch()
    index = {"weight_map": {"a": names[1], "b": names[0], "c": names[1]}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert tensor_files(tmp_path) == [tmp_path / name for name in names]


@pytest.mark.parametrize(
    ("shard", "said"),
    [
        *((name, r"no \.safetensors file beside it")
          for name in ("../model.safetensors", "/etc/passwd", "model.bin", "")),
        ("model-1.safetensors", r"model-1\.safetensors is missing"),
        (None, r"neither model\.safetensors nor"),
    ],
)  # fmt: skip
def test_an_index_leads_to_no_other_file_and_what_is_missing_is_named(
    tmp_path: Path, shard: str | None, said: str
) -> None:
    (tmp_path / "notes.txt").write_text("no weights")
    if shard is not None:
        content = json.dumps({"weight_map": {"a": shard}})
        (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(CheckpointError, match=said):
        tensor_files(tmp_path)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt", "x.pkl"])
def test_pickles_are_refused_unread(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"which nobody could read")
    with pytest.raises(CheckpointError, match="antiphon convert"):
        tensor_files(tmp_path)


@pytest.mark.parametrize("name", ["nowhere", "/no/such/folder", "./x/y", "a/b/../c"])
def test_what_is_neither_folder_nor_hub_name_is_refused(name: str) -> None:
    with pytest.raises(CheckpointError, match="neither a folder nor a hub name"):
        find_checkpoint(name)


def test_without_a_network_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(CheckpointError, match="give the path of a folder instead"):
        find_checkpoint("Qwen/No-Such-Model")
