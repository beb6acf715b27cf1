"""Folders that no family serves: what is there is named, and what to do about it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ttscommon.engine.checkpoint import CheckpointError, find_checkpoint
from ttsfamilies.base.lm.tokenizer import TextTokenizer
from ttsfamilies.known import FAMILIES
from ttsfamilies.kokoro import synthetic as kokoro
from ttsfamilies.orpheus.synthetic_snac import write_codec

Write = Callable[[Path], object]


def file(name: str, content: bytes = b"x") -> Write:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    return write


def adapter(folder: Path) -> None:
    told = {"base_model_name_or_path": "org/base", "peft_type": "LORA"}
    (folder / "adapter_config.json").write_text(json.dumps(told))
    (folder / "adapter_model.safetensors").write_bytes(b"x")


def voxcpm1(folder: Path) -> None:
    (folder / "config.json").write_text('{"architecture": "voxcpm"}')
    for name in ("pytorch_model.bin", "audiovae.pth"):
        (folder / name).write_bytes(b"x")


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
WRONG: dict[str, tuple[Write, str]] = {
    "empty": (lambda folder: None, "is empty: download a checkpoint into it"),
    "GGUF": (file("kokoro-q4.gguf"), "is a GGUF of llama.cpp, whose weights are quantised: take"),
    "NeMo": (file("tacotron2.nemo"), "is an archive of NVIDIA NeMo, .* take Tacotron 2"),
    "HiFi-GAN": (file("g_02500000"), "is a vocoder by itself, .* give the talker's folder"),
    "BigVGAN": (file("bigvgan_generator.pt"), "is a vocoder by itself"),
    "adapter": (adapter, "is an adapter .LoRA. for org/base: give that as the model"),
    "broken off": (file("model.safetensors.part"), "is a download that broke off: start it again"),
    "archive": (file("checkpoint.zip"), "is an archive: unpack it"),
    "TensorFlow": (file("tf_model.h5"), "holds weights for TensorFlow or JAX: take the authors'"),
    "within": (file("v1/model.safetensors"), "holds no weights itself: give .*v1"),
    "recordings": (file("anna.wav"), "holds recordings and no model: a voice is made of one"),
    "git-lfs": (file("model.safetensors", LFS), "is a pointer of git-lfs: run `git lfs pull`"),
    "pickle": (file("model.pth"), "is a pickle .* `antiphon convert"),
    "VoxCPM 1": (voxcpm1, "of no known family .its config.json says architecture 'voxcpm'"),
    "codec": (
        lambda folder: write_codec(folder, seed=2),
        "is SNAC.* a codec, which speaks no",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_folder_is_told_by_what_it_holds(kind: str, tmp_path: Path) -> None:
    write, said = WRONG[kind]
    write(tmp_path)
    with pytest.raises(CheckpointError, match=said) as refused:
        FAMILIES.of(find_checkpoint(str(tmp_path)))
    assert str(tmp_path) in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_a_config_without_its_weights_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "vocab_size": 9}')
    with pytest.raises(CheckpointError, match=r"has neither model\.safetensors nor its index"):
        FAMILIES.of(tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [("x.gguf", "is a GGUF"), ("model.safetensors", "is a file of a checkpoint: give its folder")],
)
def test_a_file_in_place_of_a_folder_is_told_as_such(tmp_path: Path, name: str, said: str) -> None:
    file(name)(tmp_path)
    with pytest.raises(CheckpointError, match=said):
        find_checkpoint(str(tmp_path / name))


def test_a_folder_with_its_weights_is_no_wrong_one(tmp_path: Path) -> None:
    kokoro.write_checkpoint(tmp_path, seed=3)
    file("notes.zip")(tmp_path)
    assert FAMILIES.of(tmp_path).name == "kokoro"


def test_a_package_that_is_missing_is_named_with_the_extra_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    said = r"tokenizers .*not installed: `pip install 'antiphon\[families\]'`"
    with pytest.raises(CheckpointError, match=said):
        TextTokenizer.load(tmp_path)
