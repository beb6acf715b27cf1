"""Waits of a request for what comes next, and its end when that does not come."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from gateway.errors import InputTimeout, InputTooSlow, SynthesisTimeout
from gateway.keys import TextLimits
from gateway.requests.incremental import IncrementalText
from gateway.requests.services import RequestServices
from gateway.settings import GatewaySettings
from ttscommon.wire.errors import AntiphonError, BusUnavailable
from ttscommon.wire.subjects import TALKER, VOCODER

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class RecordTimeouts:
    """For the next record of one request. `first`: nothing of it has come yet."""

    settings: GatewaySettings
    limits: TextLimits
    text: IncrementalText | None
    last_s: float
    first: bool
    rows: bool = False

    def left_s(self, now_s: float) -> float:
        """How much longer to wait. Rows may come over another connection: all that is known here
        of their pauses is that no sound comes.
        """
        settings, text = self.settings, self.text
        if self.rows:
            return self.last_s + self._rows_s - now_s
        if text is not None and not text.complete:
            return min(self._text_ends_s(text)) - now_s
        limit = settings.first_audio_timeout_s if self.first else settings.stall_timeout_s
        since = max(self.last_s, text.touched_s) if text is not None else self.last_s
        return since + limit - now_s

    def _text_ends_s(self, text: IncrementalText) -> tuple[float, float, float]:
        """When a text that is still being written has paused for too long, has taken too long, and
        has come too slowly.
        """
        return (
            text.touched_s + self.limits.pause_s,
            text.began_s + self.limits.most_s,
            text.began_s + self.limits.ends_s(text.characters),
        )

    @property
    def _rows_s(self) -> float:
        settings = self.settings
        limit = settings.first_audio_timeout_s if self.first else settings.stall_timeout_s
        return self.limits.pause_s + limit

    def exhausted(self) -> AntiphonError:
        settings, text = self.settings, self.text
        if self.rows:
            return InputTimeout(f"no rows came that could be spoken for {self._rows_s:g} s")
        if text is not None and not text.complete:
            return self._text_failed(text)
        if self.first:
            return SynthesisTimeout(f"no audio came in {settings.first_audio_timeout_s:g} s")
        return SynthesisTimeout(f"no more audio came for {settings.stall_timeout_s:g} s")

    def _text_failed(self, text: IncrementalText) -> AntiphonError:
        paused_s, taken_s, slow_s = self._text_ends_s(text)
        if paused_s <= min(taken_s, slow_s):
            return InputTimeout(f"no text came for {self.limits.pause_s:g} s")
        if taken_s <= slow_s:
            return InputTimeout(
                f"the text was not complete after {self.limits.most_s:g} s: end it and begin"
                " another, or have 'text_seconds' of the key or ANTIPHON_MAX_TEXT_S raised"
            )
        return InputTooSlow(
            f"{text.characters} characters came in {slow_s - text.began_s:g} s, and at least"
            f" {60 * self.limits.least_per_s:g} a minute are needed: send more at a time, end the"
            " text in pauses, or have 'least_characters_per_minute' of the key or"
            " ANTIPHON_LEAST_CHARACTERS_PER_MINUTE lowered"
        )


async def exhausted(
    timeouts: RecordTimeouts, services: RequestServices, model: str, request_id: str
) -> AntiphonError:
    """What a request is told whose time is up: Overloaded if no worker was given it, and then it is
    taken out of the queue.
    """
    error = timeouts.exhausted()
    if not timeouts.first or not isinstance(error, SynthesisTimeout):
        return error
    queue = services.bus.queue
    try:
        for stage in (TALKER, VOCODER):
            if await queue.withdraw(stage, model, request_id):
                return services.admission.no_slot(model)
        # Its talker may wait for room in the vocoders' queue.
        if await queue.waiting(VOCODER, model):
            return services.admission.no_slot(model)
    except BusUnavailable as unavailable:
        log_.info("queue.unseen", request_id=request_id, error=unavailable.message)
    return error
