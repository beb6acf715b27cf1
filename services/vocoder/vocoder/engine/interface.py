"""An engine as a vocoder's jobs see it, be it in this process or in another."""

from __future__ import annotations

from typing import Protocol

from ttscommon.engine.interface import StageEngine
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec
from vocoder.engine.stream import Resume


class SoundEngine(StageEngine, Protocol):
    """See Engine."""

    @property
    def spec(self) -> CodecSpec: ...
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
