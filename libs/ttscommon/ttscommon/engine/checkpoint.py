"""Published checkpoints: a folder, or a name on the Hugging Face hub, and what may be read of it.

Nothing in a checkpoint is ever executed: JSON is parsed into typed values, tensors come from
safetensors files, and a checkpoint that has only pickles is refused. No torch here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from ttscommon.engine.foreign import foreign
from ttscommon.engine.hub import (
    CONFIG,
    PICKLES,
    TENSORS,
    CheckpointError,
    HubName,
    download,
    refusal,
)
from ttscommon.engine.voice import BASE, sha256_of

T = TypeVar("T")
VOICES: Final = f"voices{TENSORS}"
"""Voices of a checkpoint, gathered when they are converted."""
ONNX = ".onnx"
VAE: Final = f"audiovae{TENSORS}"
"""The codec of VoxCPM2, beside its talker."""
CODEC_FILE: Final = "mimi_name"
"""In a config.json of Kyutai's: the file of the codec."""
_CODEC: Final = "codec"  # where it lies beside its talker
_VOCODER: Final = "vocoder"  # likewise, in voices that `training/` makes


def read_json(path: Path, form: type[T]) -> T:
    """Parse a JSON file into `form`, a dataclass or any type; raises CheckpointError.

    Keys that `form` does not name are left alone: checkpoints carry much that is not needed. A
    config.json of transformers 5 is read in the names of transformers 4.
    """
    try:
        content = path.read_bytes()
        if path.name == CONFIG:
            return msgspec.convert(renamed(msgspec.json.decode(content)), form, str_keys=True)
        return msgspec.json.decode(content, type=form)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is not as expected: {error}") from error


def checked_config(folder: Path, form: type[T], problems: Callable[[T], Iterable[str]]) -> T:
    """A folder's config.json; raises CheckpointError, also for the first of its problems."""
    path = folder / CONFIG
    config = read_json(path, form)
    for wrong in problems(config):
        raise CheckpointError(f"{path}: {wrong}")
    return config


def renamed(config: Any) -> Any:
    """A config of transformers 5 in the names of transformers 4, which families know."""
    if not isinstance(config, dict):
        return config
    found = {name: renamed(part) for name, part in config.items()}
    rope = found.get("rope_parameters")
    if isinstance(rope, dict) and "rope_theta" in rope:
        scaling = {name: value for name, value in rope.items() if name != "rope_theta"}
        old = {"rope_theta": rope["rope_theta"], "rope_scaling": scaling}
        if scaling == {"rope_type": "default"}:
            del old["rope_scaling"]
        found |= {name: value for name, value in old.items() if found.get(name) is None}
    if "num_local_experts" in found:
        found.setdefault("num_experts", found["num_local_experts"])
    return found


def tensor_files(folder: Path, stem: str = "") -> list[Path]:
    """The safetensors files of a checkpoint folder: one, or the shards its index names.

    stem: what their names begin with; what config.json says, or `model`. Raises CheckpointError,
    also for pickles and for an index that leads out of the folder.
    """
    stem = stem or _stem(folder / CONFIG)
    index = folder / f"{stem}{TENSORS}.index.json"
    if index.exists():
        return _shards(index)
    whole = folder / f"{stem}{TENSORS}"
    if whole.exists():
        return [whole]
    pickles = sorted(path.name for path in folder.glob("*") if path.suffix in PICKLES)
    said = foreign(folder)
    if pickles and not said.startswith(str(folder / pickles[0])):
        raise CheckpointError(refusal(str(folder / pickles[0]), str(folder)))
    raise CheckpointError(said or f"{folder} has neither {whole.name} nor {index.name}")


def _stem(config: Path) -> str:
    """Some folders hold two forms of a model, and `transformers_weights` names one of them; in
    Kyutai's `moshi_name` names the talker's file.
    """
    said = read_json(config, dict[str, object]) if config.exists() else {}
    keys = [key for key in ("transformers_weights", "moshi_name") if said.get(key)]
    return named_file(config, keys[0]).partition(TENSORS)[0] if keys else "model"


def named_file(config: Path, key: str) -> str:
    """The safetensors file beside a config.json that a key of it names; raises CheckpointError."""
    named = str(read_json(config, dict[str, object]).get(key))
    if Path(named).name != named or TENSORS not in named:
        raise CheckpointError(f"{config}: {key} {named!r} is no {TENSORS} file here")
    return named


def shard_names(index: Path) -> list[str]:
    """The files that an index of tensors names; raises CheckpointError."""
    weights = read_json(index, dict[str, object]).get("weight_map")
    if not isinstance(weights, Mapping) or not weights:
        raise CheckpointError(f"{index} has no weight_map")
    return sorted({str(name) for name in weights.values()})


def _shards(index: Path) -> list[Path]:
    names = shard_names(index)
    for name in names:
        if Path(name).name != name or not name.endswith(TENSORS):
            raise CheckpointError(f"{index} names {name!r}, which is no {TENSORS} file beside it")
        if not (index.parent / name).exists():
            raise CheckpointError(
                f"{index.parent / name} is missing: download the checkpoint again"
            )
    return [index.parent / name for name in names]


def find_checkpoint(name: str, *, pickles: bool = False) -> Path:
    """The folder of a checkpoint: `name` itself if it is one, else a download from the hub. A
    voice that is an ONNX file stands for itself.

    name: `ORG/NAME` or `ORG/NAME@REVISION` on the hub, `/FOLDER` behind NAME for a part of it.
    pickles: see `download`. Raises CheckpointError.
    """
    folder = Path(name)
    if folder.is_dir() or (folder.suffix == ONNX and folder.is_file()):
        return folder
    return download(hub_name(name), pickles=pickles)


def hub_name(given: str) -> HubName:
    """The place on the hub that this names; raises CheckpointError, of a file by what it holds."""
    hub = HubName.parse(given)
    if hub is None:
        raise CheckpointError(
            foreign(Path(given))
            or f"{given} is neither a folder nor a hub name such as Qwen/NAME or Qwen/NAME@REVISION"
        )
    return hub


def onnx_files(place: Path) -> list[Path]:
    """The ONNX files that a place is or holds."""
    return [place] if place.suffix == ONNX else sorted(place.glob(f"*{ONNX}"))


def holds_voice(place: Path) -> bool:
    """Whether a place is an ONNX voice, or holds one and no tensors of another kind."""
    others = () if place.suffix == ONNX else place.glob("*")
    return bool(onnx_files(place)) and not any(p.suffix in (TENSORS, *PICKLES) for p in others)


def voice_file(place: Path) -> Path:
    """The one ONNX file that a place is or holds; raises CheckpointError."""
    found = onnx_files(place)
    if len(found) != 1 or not found[0].is_file():
        named = ", ".join(path.name for path in found) or "none"
        raise CheckpointError(f"{place} holds {named} where one {ONNX} file is due: name the file")
    return found[0]


def codec_digest(folder: Path) -> str:
    """Hexadecimal SHA-256 of a codec's config, tensors and voices: equal ones are one codec.

    A folder may have no config. Raises CheckpointError.
    """
    hashed = hashlib.sha256()
    voices = [path for path in (folder / VOICES,) if path.exists()]
    try:
        for path in (*_codec_files(folder), *voices):
            hashed.update(f"{path.name} {sha256_of(path)}\n".encode())
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read: {error.strerror}") from error
    return hashed.hexdigest()


def _codec_files(folder: Path) -> list[Path]:
    if not holds_voice(folder):
        config = folder / CONFIG
        told = read_json(config, dict[str, object]) if config.exists() else {}
        if told.get("base") == BASE:
            return [config, *_codec_files(folder.resolve().parent)]
        if CODEC_FILE in told:
            return [config, folder / named_file(config, CODEC_FILE)]
        if (folder / VAE).exists():
            return [config, folder / VAE]
        for stem in (_CODEC, _VOCODER):
            if (apart := folder / f"{stem}{TENSORS}").exists():
                return [config, apart]
        return [*([config] if config.exists() else ()), *tensor_files(folder)]
    voice = voice_file(folder)
    return [voice, voice.with_name(f"{voice.name}.json")]


def missing(error: ImportError) -> CheckpointError:
    """What to say of a package that a checkpoint needs and that is not installed."""
    return CheckpointError(
        f"{error.name} is not installed: `pip install 'antiphon[families]'` brings all that"
        " published checkpoints need"
    )


def dump_json(path: Path, content: object) -> None:
    """Write JSON as checkpoints have it, in a folder that is made where it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
