"""A codec that stands in front of another one and shows it something else."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, StateUse, Work


class WrapperTicket(NamedTuple):
    """The codec's own ticket, None where it was shown nothing, and a part for each work."""

    inner: Any
    parts: Sequence[Any]


class CodecWrapper(Codec):
    """Computes as the codec in it does. A stream has the codec's state as `inner`.

    A subclass says what of a work the codec is shown, and what is then given of it.
    """

    def __init__(self, codec: Codec, spec: CodecSpec) -> None:
        self._codec = codec
        self.spec = spec
        self.depth, self.measured_step_s = codec.depth, codec.measured_step_s

    def conditions(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        return self._codec.conditions(request, reference)

    @property
    def room(self) -> tuple[int, int]:
        return self._codec.room

    @property
    def state_use(self) -> StateUse:
        return self._codec.state_use

    def example_frames(self, count: int) -> Arrays:
        return self._codec.example_frames(count)

    def warm_up(self, shapes: Sequence[tuple[int, int]]) -> None:
        self._codec.warm_up(shapes)
        self.measured_step_s = self._codec.measured_step_s

    @abstractmethod
    def shown(self, work: Work) -> Work | None:
        """What of a work the codec is to decode. Changes nothing, a second time."""

    @abstractmethod
    def part(self, work: Work, inner: int | None, shown: Work | None) -> Any:
        """What the work gives. inner: the index of the codec's result, None without one."""

    @abstractmethod
    def advance(self, work: Work, part: Any) -> None:
        """The work was launched."""

    @abstractmethod
    def given(self, part: Any, decoded: Decoded) -> Decoded:
        """A work's samples, of what the codec gave; of nothing where it was shown nothing."""

    def tell(self, state: Any, conditions: Arrays) -> None:
        self._codec.tell(state.inner, conditions)

    def restore(self, state: Any, mark: bytes) -> None:
        self._codec.restore(state.inner, mark)

    def close(self, state: Any) -> None:
        self._codec.close(state.inner)

    def launch(self, batch: Sequence[Work]) -> WrapperTicket:
        due: list[Work] = []
        parts: list[Any] = []
        for work in batch:
            shown = self.shown(work)
            parts.append(self.part(work, None if shown is None else len(due), shown))
            due += [] if shown is None else [shown]
        ticket = self._codec.launch(due) if due else None
        for work, part in zip(batch, parts, strict=True):
            self.advance(work, part)
        return WrapperTicket(ticket, parts)

    def collect(self, ticket: WrapperTicket) -> list[Decoded]:
        results = [] if ticket.inner is None else self._codec.collect(ticket.inner)
        nothing = Decoded(np.zeros(0, np.float32))
        return [
            self.given(part, nothing if part.inner is None else results[part.inner])
            for part in ticket.parts
        ]

    def paths(self, ticket: WrapperTicket) -> Sequence[LaunchPath]:
        return () if ticket.inner is None else self._codec.paths(ticket.inner)
