"""Pickled checkpoints, converted once to safetensors: services read nothing else. No torch here.

A pickle is opened in a process of its own, by torch's reader for weights alone, which executes
nothing. The process has limits on memory, time and the size of what it writes, and none of this
environment's secrets: a file that was made to harm a reader ends that process, with a reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from ttscommon.engine.checkpoint import (
    PICKLES,
    TENSORS,
    VOICES,
    CheckpointError,
    dump_json,
    shard_names,
)
from ttscommon.engine.hub import BESIDE, CODECS, PARTS, TALKER, due

_VOICES: Final = "voices"
# Endings of a pickle that is asked for by its name.
_NAMED: Final = (*PICKLES, ".pth.tar", ".pt.tar")
_INDEX: Final = ".index.json"
_STEMS: Final = ("pytorch_model", "model")
_COPIED: Final = ("*.json", "*.txt")
_KEPT: Final = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "TMPDIR", "VIRTUAL_ENV")
_GIB: Final = 1 << 30
_LOOK_S: Final = 0.2

Shown: TypeAlias = Callable[[int, int], object]
"""Told how many bytes of how many are written."""


@dataclass(frozen=True)
class ConversionLimits:
    """Of a conversion. memory_bytes: beyond three times the largest file. seconds: for a file."""

    memory_bytes: int = 4 * _GIB
    seconds: float = 600.0
    most_bytes: int = 50 * _GIB


def convert(
    folder: Path,
    *,
    file: str = "",
    into: Path | None = None,
    limits: ConversionLimits = ConversionLimits(),
    shown: Shown = lambda done, whole: None,
) -> list[Path]:
    """Write a checkpoint's tensors as safetensors, beside its pickles or `into` another folder.

    file: which pickle, where there are several; of Chatterbox, which talker. Another folder gets
    the JSON and text files too. Pickles of one tensor each in a folder `voices` become one file, by
    their names. Returns the files that were written. Raises CheckpointError, and then has written
    none.
    """
    whole = _whole(folder, file)
    voices = [] if whole else _voices(folder)
    only_voices = voices and not file and not due([path.name for path in folder.glob("*")])
    pickles = [] if whole or only_voices else _pickles(folder, file)
    pickles += [(path, f"{path.stem}{TENSORS}") for path in whole if path.suffix in PICKLES]
    target = folder if into is None else into
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=".converting-") as scratch:
        made = [(source, Path(scratch) / name) for source, name in pickles]
        gathered = Path(scratch) / VOICES
        if made or voices:
            _convert_all([*made, *((voice, gathered) for voice in voices)], limits, shown)
        if into is not None:
            _copy_others(folder, into, whole)
        found = [path.replace(target / path.name) for _, path in made]
        others = [gathered.replace(target / VOICES)] if voices else []
    parts = [target / f"{path.stem}{TENSORS}" for path in whole] or found
    if len(parts) > 1:
        found.append(_write_index(target, parts))
    return found + others


def _whole(folder: Path, file: str) -> list[Path]:
    """A Chatterbox's files, of which some may be pickles: the talker, and what is published beside
    it. None where a folder holds no such talker.
    """
    talkers = sorted(path.name for path in folder.glob(f"{TALKER}*{TENSORS}"))
    if not talkers:
        return []
    usual = f"{TALKER}cfg{TENSORS}"
    chosen = file or (usual if usual in talkers else talkers[0])
    if chosen not in talkers:
        raise CheckpointError(f"{folder / chosen} is no talker; there is {', '.join(talkers)}")
    found = [folder / chosen]
    for stems in BESIDE:
        there = [folder / f"{stem}{suffix}" for stem in stems for suffix in (TENSORS, *PICKLES)]
        found += [path for path in there if path.exists()][:1]
    return found


def _voices(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / _VOICES).glob("*") if path.suffix in PICKLES)


def _pickles(folder: Path, file: str) -> list[tuple[Path, str]]:
    """The pickles to convert, and what each is to be called; raises CheckpointError."""
    if file:
        path = _inside(folder, file)
        return [(path, _called(path))]
    for stem in _STEMS:
        for suffix in PICKLES:
            index = folder / f"{stem}{suffix}{_INDEX}"
            if index.exists():
                return _shards(index)
            if (whole := folder / f"{stem}{suffix}").exists():
                return [(whole, f"model{TENSORS}")]
    for parts in PARTS:
        if all((folder / name).exists() for name in parts):
            return [(folder / name, f"{Path(name).stem}{TENSORS}") for name in parts]
    found = sorted(path for path in folder.glob("*") if path.suffix in PICKLES)
    if len(found) == 1:
        return [(found[0], _called(found[0]))]
    if not found:
        raise CheckpointError(f"{folder} has no pickle: there is nothing to convert")
    names = ", ".join(path.name for path in found)
    raise CheckpointError(f"{folder} has several pickles: choose one with --file ({names})")


def _called(path: Path) -> str:
    """A codec beside its talker keeps its name."""
    return f"{path.stem if path.stem in CODECS else 'model'}{TENSORS}"


def _inside(folder: Path, name: str) -> Path:
    path = folder / name
    if Path(name).name != name or not name.endswith(_NAMED) or not path.is_file():
        raise CheckpointError(f"{path} is no pickle in {folder}")
    return path


def _shards(index: Path) -> list[tuple[Path, str]]:
    found = []
    for name in shard_names(index):
        path = _inside(index.parent, name)
        stem = path.stem.removeprefix("pytorch_")
        found.append((path, f"{stem}{TENSORS}"))
    return found


def _convert_all(
    files: Sequence[tuple[Path, Path]], limits: ConversionLimits, shown: Shown
) -> None:
    """Raises CheckpointError for the first that cannot be converted."""
    largest = max(source.stat().st_size for source, _ in files)
    if largest > limits.most_bytes:
        raise CheckpointError(f"a pickle has {largest} bytes: at most {limits.most_bytes} are read")
    memory = limits.memory_bytes + 3 * largest
    # What is written is no larger than what was read, but for the names in the header.
    written = max(
        2 * largest, 2 * sum(source.stat().st_size for source, t in files if t.name == VOICES)
    )
    given = [str(memory), str(written + (1 << 20)), *(str(p) for pair in files for p in pair)]
    module = "ttscommon.engine.conversion.child"
    whole = sum(source.stat().st_size for source, _ in files)
    targets = {target for _, target in files}

    def look() -> None:
        done = sum(target.stat().st_size for target in targets if target.exists())
        shown(min(done, whole), whole)

    said = _said([sys.executable, "-m", module, *given], limits.seconds * len(files), look)
    if not said.get("ok"):
        source = said.get("source", files[0][0])
        raise CheckpointError(f"{source} cannot be converted: {said.get('error')}")
    shown(whole, whole)


def _said(command: Sequence[str], seconds: float, look: Callable[[], None]) -> dict[str, object]:
    """The last line that the process wrote, as JSON; what ended it otherwise."""
    environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, env=environ, stdout=pipe, stderr=none) as process:
        try:
            written = _waited(process, time.monotonic() + seconds, look)
        except BaseException:
            process.kill()
            raise
    if written is None:
        return {"error": f"it took longer than {seconds:g} s"}
    try:
        found = json.loads(written.splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": f"its limits ended the process that read it ({process.returncode})"}
    return found if isinstance(found, dict) else {}


def _waited(
    process: subprocess.Popen[bytes], until: float, look: Callable[[], None]
) -> bytes | None:
    """What a process wrote; None for one that was ended because it is late."""
    while (left := until - time.monotonic()) > 0:
        try:
            return process.communicate(timeout=min(_LOOK_S, left))[0]
        except subprocess.TimeoutExpired:
            look()
    process.kill()
    return None


def _copy_others(folder: Path, into: Path, whole: Sequence[Path]) -> None:
    for path in whole:
        if path.suffix == TENSORS:
            shutil.copyfile(path, into / path.name)
    for pattern in _COPIED:
        for path in folder.glob(pattern):
            if not path.name.endswith(_INDEX):
                shutil.copyfile(path, into / path.name)


def _write_index(folder: Path, files: Sequence[Path]) -> Path:
    weights, total = {}, 0
    for path in files:
        for name, entry in _header(path).items():
            weights[name] = path.name
            first, last = entry["data_offsets"]
            total += last - first
    index = folder / f"model{TENSORS}{_INDEX}"
    dump_json(index, {"metadata": {"total_size": total}, "weight_map": weights})
    return index


def _header(path: Path) -> dict[str, dict[str, tuple[int, int]]]:
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    header.pop("__metadata__", None)
    return dict(header)
