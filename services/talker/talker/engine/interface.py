"""An engine as a talker's jobs see it, be it in this process or in another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from talker.engine.stream import Event
from ttscommon.engine.stage import StageEngine
from ttscommon.process.metrics import Metrics
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.talker.adapters import Adaptable
from ttsfamilies.base.talker.base import ModelSpec, Prepared


class ReadingFamily(Protocol):
    """See Family; its methods are called in threads."""

    @property
    def adapters(self) -> Adaptable | None: ...
    @property
    def revision(self) -> str: ...
    @property
    def hears(self) -> bool: ...
    def derive(self, recording: bytes) -> Arrays: ...
    def hear(self, recording: bytes) -> Arrays: ...
    def prepare(
        self,
        request: SpeechRequest,
        reference: Arrays | None = None,
        turns: Sequence[Arrays | None] = (),
    ) -> Prepared: ...


class SpeechEngine(StageEngine, Protocol):
    """See Engine."""

    metrics: Metrics

    @property
    def spec(self) -> ModelSpec: ...
    @property
    def family(self) -> ReadingFamily: ...
    def listen(self, sink: Callable[[Sequence[tuple[str, Event]]], object]) -> None: ...
    def open(
        self,
        prepared: Prepared,
        restored: Arrays | None = None,
        units: Sequence[Any] = (),
        *,
        final: bool = False,
    ) -> None: ...
    def feed(self, key: str, units: Sequence[Any], *, final: bool) -> None: ...
    def expect(self) -> None: ...
    def acknowledge(self, key: str) -> None: ...
    def playback(self, key: str, start_s: float) -> None: ...
    def cancel(self, key: str, then: Callable[[], object]) -> None: ...
    def park(self, key: str, then: Callable[[bool], object]) -> None: ...
    def unpark(self, key: str) -> None: ...
