"""The adapters of a talker's folder: each in a folder of its own, by whose name it is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import structlog
from msgspec import structs

from ttscommon.cluster.adapters.peft import Files, Lora, held
from ttscommon.engine.checkpoint import CheckpointError
from ttscommon.wire.errors import InvalidAdapter
from ttscommon.wire.parameters import Adapter
from ttsfamilies.base.talker.base import ModelSpec
from ttsfamilies.base.talker.options import Adaptable

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class AdapterLibrary:
    """listed: what `folder` has, each under its own name; empty where there is no folder."""

    folder: Path | None = None
    listed: tuple[Adapter, ...] = ()

    @classmethod
    def of(cls, folder: Path | None, model: Adaptable, most_bytes: int) -> AdapterLibrary:
        """Those of `folder` that fit the model; the others are named in the log.

        Raises CheckpointError where there is no such folder.
        """
        listed: list[Adapter] = []
        for path in [] if folder is None else _folders(folder):
            try:
                listed.append(_read(path, model, most_bytes))
            except InvalidAdapter as error:
                log_.error("adapter.refused", adapter=path.name, reason=error.message)
        return cls(folder, tuple(listed))

    def has(self, digest: str) -> bool:
        """Whether one of this content is here."""
        return any(one.digest == digest for one in self.listed)

    def read(self, digest: str, most_bytes: int) -> Files:
        """The files with this content; raises InvalidAdapter where they have changed."""
        name = next(one.name for one in self.listed if one.digest == digest)
        assert self.folder is not None
        files = Files.read(self.folder / name, most_bytes)
        if files.digest != digest:
            raise InvalidAdapter(f"the adapter {name} was changed while it is served")
        return files


def _folders(folder: Path) -> Iterator[Path]:
    try:
        for path in sorted(folder.iterdir()):
            if held(path):
                yield path
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read: {error.strerror}") from error


def _read(path: Path, model: Adaptable, most_bytes: int) -> Adapter:
    if not _NAME.fullmatch(path.name):
        raise InvalidAdapter("its folder's name has other than 1 to 64 letters, digits, '-', '_'")
    lora = Lora.parse(Files.read(path, most_bytes), model.most_rank)
    model.fitted(lora)
    return Adapter(path.name, lora.digest, lora.rank)


def with_adapters(spec: ModelSpec, library: AdapterLibrary, bindings: Sequence[str]) -> ModelSpec:
    """The model with what its library has. bindings: VOICE=ADAPTER, see TalkerSettings.

    Raises CheckpointError for a binding of a voice or to an adapter that is not there.
    """
    bound = dict(_binding(one) for one in bindings)
    names, voices = {one.name for one in library.listed}, {voice.id for voice in spec.voices}
    for voice, adapter in bound.items():
        if voice not in voices or adapter not in names:
            raise CheckpointError(
                f"{voice}={adapter}: the model has no such voice, or its folder no such adapter"
            )
    spoken = tuple(structs.replace(v, adapter=bound.get(v.id, "")) for v in spec.voices)
    return replace(spec, voices=spoken, adapters=library.listed)


def _binding(text: str) -> tuple[str, str]:
    voice, _, adapter = text.partition("=")
    return voice.strip(), adapter.strip()
