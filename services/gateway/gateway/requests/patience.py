"""How long a request waits for what comes next, and what it is told when that does not come."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from gateway.errors import InputTimeout, SynthesisTimeout
from gateway.requests.incremental import IncrementalText
from gateway.requests.services import RequestServices
from gateway.settings import GatewaySettings
from ttscommon.wire.errors import AntiphonError, BusUnavailable
from ttscommon.wire.subjects import TALKER, VOCODER

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Patience:
    """For the next record of one request. `first`: nothing of it has come yet."""

    settings: GatewaySettings
    text: IncrementalText | None
    last_s: float
    first: bool

    def left_s(self, now_s: float) -> float:
        """How much longer to wait."""
        settings, text = self.settings, self.text
        if text is not None and not text.complete:
            return text.touched_s + settings.input_timeout_s - now_s
        limit = settings.first_audio_timeout_s if self.first else settings.stall_timeout_s
        since = max(self.last_s, text.touched_s) if text is not None else self.last_s
        return since + limit - now_s

    def exhausted(self) -> AntiphonError:
        settings, text = self.settings, self.text
        if text is not None and not text.complete:
            return InputTimeout(f"no text came for {settings.input_timeout_s:g} s")
        if self.first:
            return SynthesisTimeout(f"no audio came in {settings.first_audio_timeout_s:g} s")
        return SynthesisTimeout(f"no more audio came for {settings.stall_timeout_s:g} s")


async def exhausted(
    patience: Patience, services: RequestServices, model: str, request_id: str
) -> AntiphonError:
    """What a request is told whose time is up: Overloaded if no worker was given it, and then it is
    taken out of the queue.
    """
    error = patience.exhausted()
    if not patience.first or not isinstance(error, SynthesisTimeout):
        return error
    queue = services.bus.queue
    try:
        for stage in (TALKER, VOCODER):
            if waiting := await queue.withdraw(stage, model, request_id):
                return services.admission.no_slot(model, waiting)
        # Its talker may wait for room in the vocoders' queue.
        if waiting := await queue.waiting(VOCODER, model):
            return services.admission.no_slot(model, waiting)
    except BusUnavailable as unavailable:
        log_.info("queue.unseen", request_id=request_id, error=unavailable.message)
    return error
