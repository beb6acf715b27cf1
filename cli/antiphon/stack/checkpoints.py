"""Published checkpoints in the local stack: a talker each, and a vocoder for each codec."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from antiphon.stack.voices import installed
from ttscommon.engine.checkpoint import CheckpointError, find_checkpoint
from ttscommon.engine.families import FAMILIES
from ttscommon.engine.families.digest import digest_of
from ttscommon.process.settings import PREFIX

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RESERVED: Final = ("default", "vesper")
_CODEC: Final = ",codec="


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint and the name that it is served under.

    sound: the folder of its codec. codec: its digest.
    """

    name: str
    folder: Path
    sound: Path
    codec: str

    @classmethod
    def parse(cls, given: str) -> Self:
        """`name=TALKER` or `name=TALKER,codec=CODEC`, each a folder or `ORG/NAME` on the hub; or
        `name=VOICE` for a voice that is installed as a package.

        What is on the hub is downloaded here, also a codec that is published by itself and was not
        given. Raises CheckpointError.
        """
        name, places = named(given)
        where, _, codec = places.partition(_CODEC)
        folder = _voice_package(where) or find_checkpoint(where).resolve()
        sound = codec_folder(folder, codec)
        return cls(name, folder, sound, digest_of(FAMILIES.of(folder).codec, sound))


def codec_folder(talker: Path, given: str = "") -> Path:
    """The folder of a talker's codec: the given one, or where its family publishes it.

    Raises CheckpointError, also for a codec that the talker does not speak to.
    """
    family = FAMILIES.of(talker)
    inside = talker / family.codec.inside
    if not given and family.codec.inside:
        return inside
    codec, folder = FAMILIES.codec_of(find_checkpoint(given or family.codec.published).resolve())
    if codec != family.codec:
        raise CheckpointError(
            f"{given} is a {codec.title} codec; {family.title} speaks to {family.codec.title}"
        )
    return folder


def _voice_package(where: str) -> Path | None:
    """A voice that is installed under this name; a folder of the name comes first."""
    return None if Path(where).exists() else installed().get(where)


def named(given: str) -> tuple[str, str]:
    """The name, and where the checkpoint is, of `NAME=PATH_OR_HUB_NAME`; raises CheckpointError.

    A hub name may be pinned: `ORG/NAME@REVISION`.
    """
    name, equals, where = given.partition("=")
    if not equals or not where or not _NAME.fullmatch(name) or name in _RESERVED:
        raise CheckpointError(
            f"{given!r} is no NAME=PATH_OR_HUB_NAME[@REVISION]; a name has letters, digits, - and _"
        )
    return name, where


@dataclass(frozen=True)
class StageProgram:
    """What to run for checkpoints: one stage with its settings. models: those it works for."""

    stage: Literal["talker", "vocoder"]
    name: str
    environ: dict[str, str]
    models: tuple[str, ...]


def programs_of(checkpoints: Sequence[Checkpoint]) -> list[StageProgram]:
    """A talker for each checkpoint, a vocoder for each codec among them."""
    found = [
        StageProgram("talker", f"talker-{one.name}", _talker_environ(one), (one.name,))
        for one in checkpoints
    ]
    by_codec: dict[str, list[Checkpoint]] = defaultdict(list)
    for one in checkpoints:
        by_codec[one.codec].append(one)
    for sharing in by_codec.values():
        first, names = sharing[0], [one.name for one in sharing]
        found.append(
            StageProgram(
                "vocoder", f"vocoder-{first.name}", _environ(names, first.sound), tuple(names)
            )
        )
    return found


def _talker_environ(one: Checkpoint) -> dict[str, str]:
    """Recordings may have to be encoded with the codec, wherever it is published."""
    environ = _environ([one.name], one.folder)
    beside = not one.sound.is_relative_to(one.folder)
    return environ | ({f"{PREFIX}CODEC_DIR": str(one.sound)} if beside else {})


def _environ(names: Sequence[str], folder: Path) -> dict[str, str]:
    first, *others = names
    environ = {f"{PREFIX}MODEL": first, f"{PREFIX}VOICE_DIR": str(folder)}
    return environ | ({f"{PREFIX}ALSO": ",".join(others)} if others else {})
