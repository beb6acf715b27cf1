"""Reports of models that were loaded before, on disk: they are served before they are again."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import structlog

from ttscommon.engine.assembly import cache
from ttscommon.process.settings import OF_A_PROCESS, StageSettings
from ttscommon.process.startup import VERSION
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import StageName

log_ = structlog.get_logger(__name__)


class Remembered:
    """One model's last report, by the files and settings that it was loaded with."""

    def __init__(self, stage: StageName, settings: StageSettings) -> None:
        self._path = cache().with_name("models") / f"{_key(stage, settings)}.json"

    def read(self) -> Replica | None:
        """None where there is none that can be read."""
        try:
            return Replica.decode(self._path.read_bytes())
        except (OSError, MalformedMessage):
            return None

    def write(self, replica: Replica) -> None:
        """Whole or not at all; without a place to write to, the next start loads the model."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(replica.encode())
            os.replace(file.name, self._path)
        except OSError as error:
            log_.info("model.not_remembered", error=str(error))


def _key(stage: StageName, settings: StageSettings) -> str:
    """Of the version, the model's settings, and its files."""
    told = settings.model_dump_json(exclude={*OF_A_PROCESS})
    hashed = hashlib.sha256(f"{VERSION} {stage} {told}\n".encode())
    folders = {v for name, v in settings if isinstance(v, Path) and name not in OF_A_PROCESS}
    for folder in sorted(folders):
        for path in files_of(folder):
            stat = path.stat()
            hashed.update(f"{path} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return hashed.hexdigest()[:32]


def files_of(folder: Path) -> Iterator[Path]:
    """All files of a checkpoint, in order; itself if it is a file."""
    found = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    return (path for path in found if path.is_file())
