"""Who may speak now. Refusing at once is kinder than serving everybody badly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gateway.catalogue import Catalogue
from gateway.errors import Draining, Unavailable
from gateway.settings import GatewaySettings
from ttscommon.errors import AntiphonError, Overloaded
from ttscommon.messages import SpeechRequest
from ttscommon.metrics import Metrics


@dataclass
class Admission:
    """Counts the streams of this gateway and knows whether the stages behind it live."""

    settings: GatewaySettings
    catalogue: Catalogue
    metrics: Metrics
    streams: int = 0
    draining: bool = False
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.idle.set()

    @contextmanager
    def stream(self, request: SpeechRequest) -> Iterator[None]:
        """Hold a place for `request`; raises what `admit` raises."""
        try:
            self.admit(request)
        except AntiphonError as error:
            self.metrics.refused.labels(error.code).inc()
            raise
        self.streams += 1
        self.idle.clear()
        self.metrics.active.labels("gateway").inc()
        try:
            yield
        finally:
            self.streams -= 1
            if not self.streams:
                self.idle.set()
            self.metrics.active.labels("gateway").dec()

    def admit(self, request: SpeechRequest) -> None:
        """Raises Overloaded, Unavailable or Draining if `request` may not start now."""
        if self.draining:
            raise Draining("this gateway is shutting down; connect again")
        if self.streams >= self.settings.max_streams:
            raise Overloaded(f"all {self.settings.max_streams} streams of this gateway are taken")
        snapshot = self.catalogue.snapshot
        for stage in ("talker", "vocoder"):
            if not snapshot.live(stage, request.model):
                raise Unavailable(f"no live {stage} serves '{request.model}'", param="model")
