"""Facts that the cluster knows of a model family before it loads one. No torch here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Final

from ttscommon.engine.checkpoint import (
    CheckpointError,
    codec_digest,
    holds_voice,
    read_json,
    tensor_files,
    voice_file,
)
from ttscommon.engine.foreign import foreign, pointer


@dataclass(frozen=True)
class Signs:
    """What of a folder tells its family.

    config: config.json, empty where there is none. tensors: names in its safetensors files; read
    only where config.json says too little, so it is a function.
    """

    config: Mapping[str, Any]
    tensors: Callable[[], frozenset[str]]


@dataclass(frozen=True)
class Marks:
    """What tells that a folder is of a family: a `fits` that is stated.

    kinds, keys: config.json names one of these as its model_type, and has all of these keys; what
    is empty does not count. tensors: all are there, of a folder that has no config.json.
    """

    kinds: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()

    def __call__(self, signs: Signs) -> bool:
        if not signs.config:
            return bool(self.tensors) and signs.tensors().issuperset(self.tensors)
        if not self.kinds and not self.keys:
            return False
        kind = not self.kinds or signs.config.get("model_type") in self.kinds
        return kind and signs.config.keys() >= set(self.keys)


@dataclass(frozen=True)
class Beside:
    """What of another repository lies in a folder of its talker's checkpoint.

    inside: that folder. repository: its name on the hub. files: as of FamilyFacts. needed: there is
    no speech without it; what is not needed is taken where the talker comes from the hub as well.
    """

    inside: str
    repository: str
    files: tuple[str, ...]
    needed: bool = True


@dataclass(frozen=True)
class CodecFacts:
    """A codec. package: its `codec.load` builds it; without, `codec` of the family so named.

    fits: whether a folder is such a codec. inside: the folder of a talker's checkpoint where it is
    published, empty where it is published by itself; published: its name on the hub then.
    prefixes, config: what its tensors' names begin with, and the key of its config, if it has one,
    where its talker's files hold both. files: as of FamilyFacts, where it is published by itself.
    code, weights: licences.
    """

    name: str
    title: str
    fits: Callable[[Signs], bool]
    sample_rate: int
    frame_rate_hz: float
    code: str
    weights: str
    inside: str = ""
    published: str = ""
    files: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    config: str = ""
    package: str = ""

    @property
    def home(self) -> str:
        """The package that has its module `codec`."""
        return self.package or f"ttsfamilies.{self.name}"


@dataclass(frozen=True)
class FamilyFacts:
    """A talker family. package: its `family.load` builds it; without, the folder so named here.

    fits: whether a folder is of this family. accepts: every field of a request that one of its
    checkpoints obeys. published: names on the hub. files: patterns of what is taken of such a
    repository, where `*` is no `/`; empty takes JSON, text and safetensors. recognised_by: patterns
    that all have a file in a repository of this family, where config.json does not tell. renamed:
    files that are read under other names, by patterns. beside: what lies in it of other
    repositories. code, weights: licences.
    """

    name: str
    title: str
    fits: Callable[[Signs], bool]
    codec: CodecFacts
    accepts: tuple[str, ...]
    code: str
    weights: str
    published: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    recognised_by: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    beside: tuple[Beside, ...] = ()
    package: str = ""

    @property
    def home(self) -> str:
        """The package that has its module `family`."""
        return self.package or f"ttsfamilies.{self.name}"


# The search for a folder's family, by its config.json or by the names of its tensors.


_CONFIG: Final = "config.json"
_LENGTH: Final = 8
# A published index of names takes less than a megabyte; a file may claim anything.
_MOST_HEADER_BYTES: Final = 100_000_000


class Registry:
    """The known families, each of which fits other folders than all others."""

    def __init__(self, families: Sequence[FamilyFacts]) -> None:
        self._families = tuple(families)

    def __iter__(self) -> Iterator[FamilyFacts]:
        return iter(self._families)

    @property
    def codecs(self) -> Mapping[str, CodecFacts]:
        """By name; several families may share one."""
        return {family.codec.name: family.codec for family in self._families}

    def of(self, folder: Path) -> FamilyFacts:
        """The family of a talker's folder; raises CheckpointError, which lists the known ones."""
        signs = signs_of(folder)
        for family in self._families:
            if family.fits(signs):
                return family
        if said := self._codec_alone(signs, folder) or foreign(folder):
            raise CheckpointError(said)
        known = ", ".join(family.title for family in self._families)
        raise CheckpointError(f"{folder} is of no known family ({_said(signs)}); known: {known}")

    def _codec_alone(self, signs: Signs, folder: Path) -> str:
        """What to say of a codec that was given for a talker; empty for what is none."""
        for codec in self.codecs.values():
            if codec.fits(signs):
                whose = [family.title for family in self._families if family.codec == codec]
                return (
                    f"{folder} is {codec.title}, a codec, which speaks no text: give the folder of"
                    f" {' or '.join(whose)}, and this one with codec="
                )
        return ""

    def codec_of(self, folder: Path) -> tuple[CodecFacts, Path]:
        """The codec that a folder is or holds, and the folder of its own files.

        Raises CheckpointError, which lists the known ones.
        """
        signs = signs_of(folder)
        for codec in self.codecs.values():
            if codec.fits(signs):
                return codec, folder
        for family in self._families:
            if family.fits(signs) and family.codec.inside:
                return family.codec, folder / family.codec.inside
        known = ", ".join(codec.title for codec in self.codecs.values())
        raise CheckpointError(f"{folder} holds no known codec ({_said(signs)}); known: {known}")


def signs_of(folder: Path) -> Signs:
    """What tells a folder's family; raises CheckpointError where there is nothing to tell by."""
    config: dict[str, Any] = {}
    if (folder / _CONFIG).exists():
        config = read_json(folder / _CONFIG, dict[str, Any])
    elif holds_voice(folder):
        voice = voice_file(folder)
        config = read_json(voice.with_name(f"{voice.name}.json"), dict[str, Any])
    else:
        tensor_files(folder)
    return Signs(config, cache(lambda: frozenset(_tensor_names(folder))))


def _tensor_names(folder: Path) -> Iterator[str]:
    for path in tensor_files(folder):
        yield from (name for name in read_header(path) if name != "__metadata__")


def read_header(path: Path) -> dict[str, Any]:
    """The JSON that a safetensors file begins with; raises CheckpointError."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH), "little")
            if pointer(path):
                raise CheckpointError(f"{path} is a pointer of git-lfs: run `git lfs pull` there")
            if length > _MOST_HEADER_BYTES:
                raise CheckpointError(f"{path} is damaged: its header claims {length} bytes")
            header = json.loads(file.read(length))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} is truncated or damaged: download it again") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{path} is damaged: its header is no object")
    return header


def _said(signs: Signs) -> str:
    for key in ("model_type", "family", "architecture"):
        if key in signs.config:
            return f"its config.json says {key} {signs.config[key]!r}"
    return "its config.json names none" if signs.config else "by the names of its tensors"


# A codec's digest: of its config and tensors, which tell it from others, and of nothing else.


_CHUNK: Final = 1 << 20


def digest_of(codec: CodecFacts, folder: Path) -> str:
    """Hexadecimal SHA-256 of a codec in its own folder or in its talker's: equal ones are one.

    Of a talker's files only what belongs to the codec is read. Raises CheckpointError.
    """
    files = {path: read_header(path) for path in tensor_files(folder)} if codec.prefixes else {}
    if not any(name.startswith(codec.prefixes) for header in files.values() for name in header):
        return codec_digest(folder)
    hashed = hashlib.sha256(_config(folder / "config.json", codec.config))
    for path, header in files.items():
        try:
            with path.open("rb") as file:
                for part in _parts(file, path, header, codec.prefixes):
                    hashed.update(part)
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    return hashed.hexdigest()


def _config(path: Path, key: str) -> bytes:
    said = read_json(path, dict[str, Any]) if key and path.exists() else {}
    return json.dumps(said.get(key), sort_keys=True).encode()


def _parts(
    file: BinaryIO, path: Path, header: Mapping[str, Any], prefixes: tuple[str, ...]
) -> Iterator[bytes]:
    """Name, type and shape, and then the numbers, of each tensor whose name begins so."""
    begin = _LENGTH + int.from_bytes(file.read(_LENGTH), "little")
    for name in sorted(name for name in header if name.startswith(prefixes)):
        said = header[name]
        try:
            first, last = (int(each) for each in said["data_offsets"])
            yield f"{name} {said['dtype']} {said['shape']} {last - first}\n".encode()
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{path} is damaged: its header says no place of {name}"
            ) from error
        file.seek(begin + first)
        yield from _read(file, path, last - first)


def _read(file: BinaryIO, path: Path, count: int) -> Iterator[bytes]:
    while count > 0:
        data = file.read(min(count, _CHUNK))
        if not data:
            raise CheckpointError(f"{path} is truncated or damaged: download it again")
        count -= len(data)
        yield data
