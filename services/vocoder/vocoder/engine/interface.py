"""An engine as a vocoder's jobs see it, be it in this process or in another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ttscommon.engine.interface import StageEngine
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec
from vocoder.engine.stream import Event, Resume


class SoundEngine(StageEngine, Protocol):
    """See Engine."""

    metrics: Metrics

    @property
    def spec(self) -> CodecSpec: ...
    def listen(self, sink: Callable[[Sequence[tuple[str, Event]]], object]) -> None: ...
    def prefix(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None: ...
    def conditions(
        self, request: SpeechRequest, reference: Arrays | None = None
    ) -> Arrays | None: ...
    def open(
        self,
        request: SpeechRequest,
        resume: Resume = ...,
        prefix: Arrays | None = None,
        conditions: Arrays | None = None,
    ) -> None: ...
    def feed(self, key: str, frames: Arrays) -> None: ...
    def finish(self, key: str) -> None: ...
    def playback(self, key: str, start_s: float) -> None: ...
    def cancel(self, key: str, then: Callable[[], object]) -> None: ...
