"""An engine as a talker's jobs see it, be it in this process or in another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ttscommon.engine.interface import StageEngine
from ttscommon.wire.fields import NOTHING, Array, Arrays, Derived
from ttscommon.wire.lookups import PhonesFound
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.talker.base import ModelSpec, Prepared
from ttsfamilies.base.talker.options import Adaptable


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
    def phones(self, text: str, language: str) -> PhonesFound | None: ...
    def style(self, voice: str) -> Array | None: ...
    def prepare(self, request: SpeechRequest, derived: Derived = NOTHING) -> Prepared: ...


class SpeechEngine(StageEngine, Protocol):
    """See Engine."""

    @property
    def spec(self) -> ModelSpec: ...
    @property
    def family(self) -> ReadingFamily: ...
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
    def park(self, key: str, then: Callable[[bool], object]) -> None: ...
