"""A talker's engine for an edge in another process. Texts are read here, beside the model's own
tables; the edge holds names of what came of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from talker.engine.engine import Engine
from ttscommon.cluster.adapters.peft import Lora
from ttscommon.engine.apart.host import EngineHost
from ttscommon.wire.fields import Arrays, Derived
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Piece
from ttsfamilies.base.talker.base import Family, ModelSpec, Prepared
from ttsfamilies.base.talker.options import Adaptable, Sized


@dataclass(frozen=True)
class AdaptableFacts:
    """See Adaptable."""

    slots: int
    most_rank: int
    reserved_bytes: int
    modules: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class TalkerFacts:
    """What an edge is told once. revision: None of a family that derives nothing. adapters: None of
    one that has none. hears: see Family.
    """

    spec: ModelSpec
    revision: str | None
    hears: bool
    adapters: AdaptableFacts | None


class UnitName(NamedTuple):
    """A unit of text that a request was read into: the request's number, and its own."""

    prepared: int
    unit: int


@dataclass(eq=False)
class _Read:
    """A request that was prepared, and what was read of it and is not yet in the engine."""

    prepared: Prepared
    units: dict[int, Any] = field(default_factory=dict)
    readings: dict[int, Iterator[Any]] = field(default_factory=dict)


class TalkerHost(EngineHost[Engine]):
    """See EngineHost."""

    def __init__(self, connection: Connection, heard: Callable[[], object]) -> None:
        self._numbers = itertools.count()
        self._held: dict[int, _Read] = {}
        self._fitted: dict[int, Sized] = {}
        super().__init__(connection, heard)

    def facts(self, engine: Engine) -> TalkerFacts:
        family = engine.family
        adapters = _facts(family.adapters)
        return TalkerFacts(engine.spec, _revision(family), family.hears, adapters)

    def handlers(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "prepare": self._prepare,
            "read": self._read,
            "next": self._next,
            "forget": lambda number: self._held.pop(number, None),
            "derive": lambda recording: self._engine.family.derive(recording),
            "hear": lambda recording: self._engine.family.hear(recording),
            "phones": lambda *of: self._engine.family.phones(*of),
            "style": lambda voice: self._engine.family.style(voice),
            "open": self._open,
            "feed": self._feed,
            "expect": lambda: self._engine.expect(),
            "acknowledge": lambda key: self._engine.acknowledge(key),
            "park": self._park,
            "fit": self._fit,
            "unfit": lambda number: self._fitted.pop(number, None),
            "put": self._put,
            "drop": lambda slot: self._adapters.drop(slot),
        }

    @property
    def _adapters(self) -> Adaptable:
        model = self._engine.family.adapters
        assert model is not None
        return model

    def _prepare(
        self, request: SpeechRequest, reference: Arrays | None, turns: Sequence[Arrays | None]
    ) -> int:
        prepared = self._engine.family.prepare(request, Derived(reference, turns))
        self._held[number := next(self._numbers)] = _Read(prepared)
        return number

    def _read(
        self, number: int, pieces: Sequence[Piece], final: bool
    ) -> tuple[int, UnitName | None]:
        """Begin to read; the reading's number, and the first unit."""
        held, reading = self._held[number], next(self._numbers)
        held.readings[reading] = held.prepared.read(pieces, final=final)
        return reading, self._next(number, reading)

    def _next(self, number: int, reading: int) -> UnitName | None:
        held = self._held[number]
        for unit in held.readings[reading]:
            held.units[named := next(self._numbers)] = unit
            return UnitName(number, named)
        del held.readings[reading]
        return None

    def _units(self, names: Sequence[UnitName]) -> list[Any]:
        return [self._held[name.prepared].units.pop(name.unit) for name in names]

    def _open(
        self, key: str, number: int, restored: Arrays | None, units: Sequence[UnitName], final: bool
    ) -> None:
        prepared = self._held[number].prepared
        self.open(
            key,
            lambda: self._engine.open(prepared, restored, self._units(units), final=final),
        )

    def _feed(self, key: str, units: Sequence[UnitName], final: bool) -> None:
        self._engine.feed(key, self._units(units), final=final)

    def _park(self, key: str, number: int) -> None:
        self._engine.park(key, lambda was: self.then(number, was))

    def _fit(self, lora: Lora) -> tuple[int, int]:
        """The adapter's number, and the bytes that it takes."""
        fitted = self._adapters.fitted(lora)
        self._fitted[number := next(self._numbers)] = fitted
        return number, fitted.size

    def _put(self, slot: int, number: int) -> None:
        self._adapters.put(slot, self._fitted.pop(number))


def _revision(family: Family) -> str | None:
    try:
        return family.revision
    except NotImplementedError:
        return None


def _facts(model: Adaptable | None) -> AdaptableFacts | None:
    if model is None:
        return None
    return AdaptableFacts(model.slots, model.most_rank, model.reserved_bytes, dict(model.modules))
