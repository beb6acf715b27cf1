"""Facts of an engine that a talker's edge is told once, and names of what stays there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ttsfamilies.base.talker.base import ModelSpec


@dataclass(frozen=True)
class AdaptableFacts:
    """See Adaptable."""

    slots: int
    most_rank: int
    reserved_bytes: int
    modules: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class TalkerFacts:
    """revision: None of a family that derives nothing. adapters: None of one that has none. hears:
    see Family.
    """

    spec: ModelSpec
    revision: str | None
    hears: bool
    adapters: AdaptableFacts | None


class UnitName(NamedTuple):
    """A unit of text that a request was read into: the request's number, and its own."""

    prepared: int
    unit: int
