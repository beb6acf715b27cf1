"""A vocoder's engine for an edge in another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ttscommon.engine.apart.host import EngineHost
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec
from vocoder.engine.engine import Engine
from vocoder.engine.stream import Resume


@dataclass(frozen=True)
class VocoderFacts:
    """What an edge is told once. conditioned: whether the codec makes anything of a request or its
    reference, see Codec.prefix.
    """

    spec: CodecSpec
    conditioned: bool


class VocoderHost(EngineHost[Engine]):
    """See EngineHost."""

    def facts(self, engine: Engine) -> VocoderFacts:
        return VocoderFacts(engine.spec, engine.conditioned)

    def handlers(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "prefix": lambda *asked: self._engine.prefix(*asked),
            "conditions": lambda *asked: self._engine.conditions(*asked),
            "open": self._open,
            "feed": lambda key, frames: self._engine.feed(key, frames),
            "finish": lambda key: self._engine.finish(key),
        }

    def _open(
        self,
        request: SpeechRequest,
        resume: Resume,
        prefix: Arrays | None,
        conditions: Arrays | None,
    ) -> None:
        self.open(
            request.request_id, lambda: self._engine.open(request, resume, prefix, conditions)
        )
