"""`python -m talker.apart.edge`: a talker's jobs, for an engine in another process."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from talker.apart.host import AdaptableFacts, TalkerFacts, UnitName
from talker.service import serve
from talker.settings import TalkerSettings
from ttscommon.cluster.adapters.peft import Lora
from ttscommon.engine.apart.edge import EdgeEngine, run_edge
from ttscommon.wire.fields import NOTHING, Array, Arrays, Derived
from ttscommon.wire.lookups import PhonesFound
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.pieces import Piece
from ttsfamilies.base.talker.base import ModelSpec, Prepared
from ttsfamilies.base.talker.options import Adaptable


class TalkerEdge(EdgeEngine[TalkerFacts]):
    """See Engine."""

    @property
    def spec(self) -> ModelSpec:
        return self.facts.spec

    @property
    def family(self) -> FamilyThere:
        return FamilyThere(self)

    def open(
        self,
        prepared: Prepared,
        restored: Arrays | None = None,
        units: Sequence[UnitName] = (),
        *,
        final: bool = False,
    ) -> None:
        """See Engine; raises Stopped."""
        assert isinstance(prepared, PreparedThere)
        key = prepared.request.request_id
        self.opened(key, "open", key, prepared.number, restored, tuple(units), final)

    def feed(self, key: str, units: Sequence[UnitName], *, final: bool) -> None:
        self.say("feed", key, tuple(units), final)

    def expect(self) -> None:
        self.say("expect")

    def acknowledge(self, key: str) -> None:
        self.say("acknowledge", key)

    def park(self, key: str, then: Callable[[bool], object]) -> None:
        self.ask("park", key, then=lambda was=False: then(was))


class FamilyThere:
    """The engine's Family, as far as jobs need it."""

    def __init__(self, engine: TalkerEdge) -> None:
        self._engine = engine

    @property
    def adapters(self) -> Adaptable | None:
        facts = self._engine.facts.adapters
        return AdaptersThere(self._engine, facts) if facts is not None else None

    @property
    def revision(self) -> str:
        if self._engine.facts.revision is None:
            raise NotImplementedError("this family clones no voices")
        return self._engine.facts.revision

    @property
    def hears(self) -> bool:
        return self._engine.facts.hears

    def hear(self, recording: bytes) -> Arrays:
        heard: Arrays = self._engine.call("hear", recording)
        return heard

    def derive(self, recording: bytes) -> Arrays:
        derived: Arrays = self._engine.call("derive", recording)
        return derived

    def phones(self, text: str, language: str) -> PhonesFound | None:
        found: PhonesFound | None = self._engine.call("phones", text, language)
        return found

    def style(self, voice: str) -> Array | None:
        found: Array | None = self._engine.call("style", voice)
        return found

    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> Prepared:
        number = self._engine.call("prepare", request, derived.reference, tuple(derived.turns))
        return PreparedThere(self._engine, number, request)


class PreparedThere(Prepared):
    """A request that the engine's process has prepared; it is forgotten there with this."""

    def __init__(self, engine: TalkerEdge, number: int, request: SpeechRequest) -> None:
        self.request, self.number, self._engine = request, number, engine
        weakref.finalize(self, engine.say, "forget", number)

    def read(self, pieces: Sequence[Piece], *, final: bool) -> Iterator[UnitName]:
        reading, unit = self._engine.call("read", self.number, tuple(pieces), final)
        while unit is not None:
            yield unit
            unit = self._engine.call("next", self.number, reading)


class FittedThere:
    """An adapter that is ready in the engine's process, and forgotten there with this."""

    def __init__(self, engine: TalkerEdge, number: int, size: int) -> None:
        self.number, self.size = number, size
        weakref.finalize(self, engine.say, "unfit", number)


class AdaptersThere:
    """See Adaptable."""

    def __init__(self, engine: TalkerEdge, facts: AdaptableFacts) -> None:
        self.slots, self.most_rank = facts.slots, facts.most_rank
        self.reserved_bytes, self.modules = facts.reserved_bytes, facts.modules
        self._engine = engine

    def fitted(self, lora: Lora) -> FittedThere:
        return FittedThere(self._engine, *self._engine.call("fit", lora))

    def put(self, slot: int, fitted: Any) -> None:
        self._engine.call("put", slot, fitted.number)

    def drop(self, slot: int) -> None:
        self._engine.say("drop", slot)

    def row_id(self, digest: str) -> int:
        """Is asked where streams are."""
        raise NotImplementedError(digest)


if __name__ == "__main__":
    run_edge("talker", TalkerSettings, TalkerEdge, serve)
