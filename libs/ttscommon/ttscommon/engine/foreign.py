"""Sentences for folders that hold something else than a checkpoint: what, and what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

_TENSORS: Final = ".safetensors"
_LFS: Final = b"version https://git-lfs"
# Of HiFi-GAN, BigVGAN, Vocos and their like, by the names that their authors give them.
_VOCODER: Final = re.compile(
    r"(g|do)_\d{5,}|.*(hifi-?gan|bigvgan|vocos|univnet|waveglow|melgan).*", re.IGNORECASE
)
_ORIGINAL: Final = "take the authors' repository, whose weights are safetensors or .pt"
# By endings of files, the first that is there: what it is, and what to do.
_KINDS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (
        (".gguf", ".ggml"),
        "is a GGUF of llama.cpp, whose weights are quantised: " + _ORIGINAL,
    ),
    (
        (".nemo",),
        "is an archive of NVIDIA NeMo, which is not served: take Tacotron 2 and HiFi-GAN as their"
        " authors publish them (tacotron2.pt and generator.pt), and `antiphon convert` them",
    ),
    (
        (".incomplete", ".part", ".crdownload", ".aria2"),
        "is a download that broke off: start it again, or give ORG/NAME, which goes on by itself",
    ),
    ((".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar"), "is an archive: unpack it"),
    (
        (".h5", ".msgpack", ".tflite", ".pb", ".keras"),
        "holds weights for TensorFlow or JAX: " + _ORIGINAL,
    ),
    ((".mlmodel", ".mlpackage", ".engine", ".plan"), "is compiled for one device: " + _ORIGINAL),
)


def foreign(place: Path) -> str:
    """A sentence for what is served by no family, empty where nothing is known of it."""
    if place.is_file():
        return _of_file(place)
    names = sorted(path.name for path in place.glob("*") if not path.name.startswith("."))
    if not place.is_dir():
        return ""
    if not names:
        return f"{place} is empty: download a checkpoint into it, or give its name on the hub"
    # What has weights may lie beside anything.
    for tell in (_adapter,) if any(_weights(place)) else _TELLS:
        if said := tell(place, names):
            return said
    return ""


def foreign_names(place: Path, names: Sequence[str]) -> str:
    """The same of names alone, which lie on the hub."""
    return _vocoder(place, names) or _known_kind(place, names)


def pointer(path: Path) -> bool:
    """Whether git-lfs left a pointer in place of the file."""
    with path.open("rb") as file:
        return file.read(len(_LFS)) == _LFS


def _of_file(path: Path) -> str:
    for endings, what in _KINDS:
        if path.suffix in endings:
            return f"{path} {what}"
    if path.suffix in (_TENSORS, ".json", ".pt", ".pth", ".bin", ".ckpt"):
        return f"{path} is a file of a checkpoint: give its folder, {path.parent}"
    return ""


def _adapter(folder: Path, names: Sequence[str]) -> str:
    if "adapter_config.json" not in names:
        return ""
    try:
        told = json.loads((folder / "adapter_config.json").read_bytes())
        base = str(told["base_model_name_or_path"])
    except (OSError, ValueError, KeyError, TypeError):
        base = "the model that it was trained for"
    return (
        f"{folder} is an adapter (LoRA) for {base}: give that as the model, and upload the adapter"
        " or put it below ANTIPHON_ADAPTER_DIR"
    )


def _known_kind(folder: Path, names: Sequence[str]) -> str:
    for endings, what in _KINDS:
        if found := next((name for name in names if name.endswith(endings)), ""):
            return f"{folder / found} {what}"
    return ""


def _vocoder(folder: Path, names: Sequence[str]) -> str:
    if found := next((name for name in names if _VOCODER.fullmatch(name)), ""):
        return (
            f"{folder / found} is a vocoder by itself, which speaks no text: give the talker's"
            " folder, and a codec of its family with codec="
        )
    return ""


def _within(folder: Path, names: Sequence[str]) -> str:
    """A repository of several, or an archive that unpacked into a folder of its own: a checkpoint
    whose own weights are missing has other files of its own.
    """
    if any((folder / name).is_file() and not name.endswith((".md", ".txt")) for name in names):
        return ""
    found = [
        folder / name for name in names if (folder / name).is_dir() and any(_weights(folder / name))
    ]
    if not found:
        return ""
    return f"{folder} holds no weights itself: give {' or '.join(map(str, found[:4]))}"


def _weights(folder: Path) -> Iterator[Path]:
    return folder.glob(f"*{_TENSORS}")


def _config_alone(folder: Path, names: Sequence[str]) -> str:
    if "config.json" not in names or any(name.endswith((".bin", ".pt", ".pth")) for name in names):
        return ""
    return (
        f"{folder} has neither model.safetensors nor its index beside config.json: download the"
        " checkpoint again"
    )


def _exported(folder: Path, names: Sequence[str]) -> str:
    """CosyVoice has what hears recordings as ONNX, beside its weights."""
    found = [name for name in names if name.endswith(".onnx")]
    if not found or any(name.startswith(("campplus", "speech_tokenizer")) for name in found):
        return ""
    return f"{folder / found[0]} is an export to ONNX, and no voice of Piper's: {_ORIGINAL}"


def _sounds(folder: Path, names: Sequence[str]) -> str:
    if not any(name.endswith((".wav", ".flac", ".mp3", ".ogg")) for name in names):
        return ""
    return (
        f"{folder} holds recordings and no model: a voice is made of one by POST /v1/audio/voices,"
        " for a model that clones"
    )


_TELLS: Final[tuple[Callable[[Path, Sequence[str]], str], ...]] = (
    *(_adapter, _vocoder, _known_kind, _config_alone, _exported, _within, _sounds),
)
