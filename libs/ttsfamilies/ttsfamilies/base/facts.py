"""Facts that the cluster knows of a model family before it loads one. No torch here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Signs:
    """What of a folder tells its family.

    config: config.json, empty where there is none. tensors: names in its safetensors files; read
    only where config.json says too little, so it is a function.
    """

    config: Mapping[str, Any]
    tensors: Callable[[], frozenset[str]]


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
        return self.package or f"ttsfamilies.{self.name}.codec"


@dataclass(frozen=True)
class FamilyFacts:
    """A talker family. package: its `family.load` builds it; without, the folder so named here.

    fits: whether a folder is of this family. accepts: every field of a request that one of its
    checkpoints obeys. published: names on the hub. files: patterns of what is taken of such a
    repository, where `*` is no `/`; empty takes JSON, text and safetensors. told_by: patterns that
    all have a file in a repository of this family, where config.json does not tell. renamed: files
    that are read under other names, by patterns. beside: what lies in it of other repositories.
    code, weights: licences.
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
    told_by: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    beside: tuple[Beside, ...] = ()
    package: str = ""

    @property
    def home(self) -> str:
        """The package that has its module `family`."""
        return self.package or f"ttsfamilies.{self.name}"
