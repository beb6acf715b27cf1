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
class CodecFacts:
    """A codec. package: its `loading.load` builds it; without, `codec` of the family so named.

    fits: whether a folder is such a codec. inside: the folder of a talker's checkpoint where it is
    published, empty where it is published by itself; published: its name on the hub then.
    prefixes, config: what its tensors' names begin with, and the key of its config, if it has one,
    where its talker's files hold both. code, weights: licences.
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
    prefixes: tuple[str, ...] = ()
    config: str = ""
    package: str = ""

    @property
    def home(self) -> str:
        """The package that has its `loading`."""
        return self.package or f"ttsfamilies.{self.name}.codec"


@dataclass(frozen=True)
class FamilyFacts:
    """A talker family. package: its `loading.load` builds it; without, the folder so named here.

    fits: whether a folder is of this family. accepts: every field of a request that one of its
    checkpoints obeys. published: names on the hub. code, weights: licences.
    """

    name: str
    title: str
    fits: Callable[[Signs], bool]
    codec: CodecFacts
    accepts: tuple[str, ...]
    code: str
    weights: str
    published: tuple[str, ...] = ()
    package: str = ""

    @property
    def home(self) -> str:
        """The package that has its `loading`."""
        return self.package or f"ttsfamilies.{self.name}"
