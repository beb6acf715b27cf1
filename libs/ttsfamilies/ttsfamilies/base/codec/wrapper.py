"""A codec that stands in front of another one and shows it something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, StateUse


class CodecWrapper(Codec):
    """Computes as the codec in it does. Tickets have the codec's own as `inner`, None for none."""

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

    def warm_up(self, shapes: Sequence[tuple[int, int]]) -> None:
        self._codec.warm_up(shapes)
        self.measured_step_s = self._codec.measured_step_s

    def paths(self, ticket: Any) -> Sequence[LaunchPath]:
        return () if ticket.inner is None else self._codec.paths(ticket.inner)
