"""A family that is another one with something added on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ttscommon.wire.fields import Arrays, Field
from ttsfamilies.base.talker.base import Family
from ttsfamilies.base.talker.runner import Runner


class WrappedFamily(Family):
    """Computes as the family in it does. Subclasses say what a request's text and stream are."""

    def __init__(self, family: Family, replay: Mapping[str, Field]) -> None:
        """replay: what is logged of a frame besides the family's own."""
        self._family = family
        self.spec = replace(family.spec, replay={**family.spec.replay, **replay})
        self.depth, self.exact = family.depth, family.exact
        self.cache_itemsize = family.cache_itemsize
        self.measured_round_s = family.measured_round_s
        self.adapters, self.signs = family.adapters, family.signs
        self.hears = family.hears

    def free_bytes(self) -> int | None:
        return self._family.free_bytes()

    def fit(self, positions: int) -> None:
        self._family.fit(positions)

    def runner(self, rows: int, blocks: int, depth: int) -> Runner:
        return self._family.runner(rows, blocks, depth)

    def examples(self) -> Sequence[str]:
        return self._family.examples()

    @property
    def revision(self) -> str:
        return self._family.revision

    def derive(self, recording: bytes) -> Arrays:
        return self._family.derive(recording)

    def hear(self, recording: bytes) -> Arrays:
        return self._family.hear(recording)

    def example_reference(self) -> Arrays | None:
        return self._family.example_reference()
