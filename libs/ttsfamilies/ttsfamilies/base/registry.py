"""The search for a folder's family, by its config.json or by the names of its tensors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from ttscommon.engine.checkpoint import (
    CheckpointError,
    holds_voice,
    read_json,
    tensor_files,
    voice_file,
)
from ttscommon.engine.foreign import foreign, pointer
from ttsfamilies.base.facts import CodecFacts, FamilyFacts, Signs

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
