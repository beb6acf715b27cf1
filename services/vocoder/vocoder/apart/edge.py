"""`python -m vocoder.apart.edge`: a vocoder's jobs, for an engine in another process."""

from __future__ import annotations

from ttscommon.engine.apart.edge import EdgeEngine, run_edge
from ttscommon.wire.fields import Arrays
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec
from vocoder.apart.host import VocoderFacts
from vocoder.engine.stream import Resume
from vocoder.service import serve
from vocoder.settings import VocoderSettings


class VocoderEdge(EdgeEngine[VocoderFacts]):
    """See Engine."""

    @property
    def spec(self) -> CodecSpec:
        return self.facts.spec

    def prefix(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        """See Engine. Most codecs make nothing of it, and are not asked."""
        return self._made("prefix", request, reference)

    def conditions(self, request: SpeechRequest, reference: Arrays | None = None) -> Arrays | None:
        return self._made("conditions", request, reference)

    def open(
        self,
        request: SpeechRequest,
        resume: Resume = Resume(),  # noqa: B008
        prefix: Arrays | None = None,
        conditions: Arrays | None = None,
    ) -> None:
        """See Engine; raises Stopped."""
        self.opened(request.request_id, "open", request, resume, prefix, conditions)

    def feed(self, key: str, frames: Arrays) -> None:
        self.say("feed", key, dict(frames))

    def finish(self, key: str) -> None:
        self.say("finish", key)

    def _made(self, name: str, request: SpeechRequest, reference: Arrays | None) -> Arrays | None:
        if not self.facts.conditioned:
            return None
        made: Arrays | None = self.call(name, request, reference)
        return made


if __name__ == "__main__":
    run_edge("vocoder", VocoderSettings, VocoderEdge, serve)
