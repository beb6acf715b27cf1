"""Waiting for the next record of a request: as long as the stages, or its writer, may take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from gateway.errors import InputTimeout, InputTooSlow, SynthesisTimeout
from gateway.keys import TextLimits
from gateway.requests.incremental import IncrementalText
from gateway.requests.services import RequestServices
from gateway.requests.sources import SpeechSource
from gateway.settings import GatewaySettings
from ttscommon.bus import AudioReader
from ttscommon.wire.errors import AntiphonError, BusUnavailable, Overloaded, StoreLost
from ttscommon.wire.subjects import TALKER, VOCODER

_NO_SLOT: Final = "no slot became free in time"

log_ = structlog.get_logger(__name__)


class Waiting:
    """Waits for the records of one request.

    last_s: when the last one came; before the first, when the request was accepted. on_stages: the
    gateway waits for the stages now.
    """

    def __init__(self, services: RequestServices, source: SpeechSource, accepted_s: float) -> None:
        self.last_s = accepted_s
        self._services = services
        self._source = source
        # As its key has them when it begins: a key may be revoked while its streams are spoken.
        tenant = services.admission.keys.tenants[source.spec.tenant]
        self._limits = tenant.text_limits(services.settings)
        self._first = True
        self._told = ""
        self.on_stages = False

    def came(self) -> None:
        """A record came."""
        self.last_s = time.monotonic()
        self._first = False
        self._told = ""

    async def next(
        self,
        reader: AudioReader,
        duty: asyncio.Task[Any] | None,
        tell: Callable[[AntiphonError], None],
    ) -> object:
        """The next record. Raises the error of a request that waited too long, and what its `duty`
        failed with.

        `tell`: called with what the request waits for, where workers are missing and that changes.
        """
        if (record := reader.at_hand()) is not None:
            return record
        while True:
            left_s = await self._left_s()
            try:
                # While text is still coming the limit moves, so look again now and then.
                async with asyncio.timeout(min(left_s, self._services.tuning.look_s)):
                    self.on_stages = True
                    return await anext(reader)
            except TimeoutError:
                if duty is not None and duty.done():
                    duty.result()
                if (lacking := self._lacks()) is not None:
                    tell(lacking)
            finally:
                self.on_stages = False

    async def _left_s(self) -> float:
        services, spec, text = self._services, self._source.spec, self._source.text
        timeouts = RecordTimeouts(
            *(services.settings, self._limits, text, self.last_s, self._first, self._source.rows)
        )
        left_s = timeouts.left_s(time.monotonic())
        if self._first and self._job_lost():
            raise StoreLost("the broker lost what it had stored, this request with it: ask again")
        if spec.offline:  # listeners come first, however long that takes
            left_s += services.tuning.offline_s
        if left_s <= 0:
            raise await timed_out(timeouts, services, spec.model.name, self._source.request_id)
        return left_s

    def _job_lost(self) -> bool:
        """Whether the queue that it waited in is gone, and no worker that had it before began."""
        lost_s = self._services.bus.link.store.queues_lost_s
        grace_s = self._services.tuning.lost_job_s
        return self.last_s < lost_s and time.monotonic() - lost_s > grace_s

    def _lacks(self) -> AntiphonError | None:
        """What it waits for, unless the client was told so."""
        if time.monotonic() - self.last_s < self._services.tuning.tell_s:
            return None
        lacking = self._services.catalogue.lacks(self._source.spec.model.name)
        if lacking is None or lacking.message == self._told:
            return None
        self._told = lacking.message
        return lacking


@dataclass(frozen=True)
class RecordTimeouts:
    """Time limits of the next record of one request. `first`: nothing of it has come yet."""

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
        text = self.text
        if self.rows:
            return self.last_s + self._rows_s - now_s
        if text is not None and not text.complete:
            return min(self._text_ends_s(text)) - now_s
        since = max(self.last_s, text.touched_s) if text is not None else self.last_s
        return since + self._sound_s - now_s

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
    def _sound_s(self) -> float:
        """How long the stages may take to send sound."""
        settings = self.settings
        return settings.first_audio_timeout_s if self.first else settings.stall_timeout_s

    @property
    def _rows_s(self) -> float:
        return self.limits.pause_s + self._sound_s

    def exhausted(self) -> AntiphonError:
        text = self.text
        if self.rows:
            return InputTimeout(f"no rows came that could be spoken for {self._rows_s:g} s")
        if text is not None and not text.complete:
            return self._text_failed(text)
        if self.first:
            return SynthesisTimeout(f"no audio came in {self._sound_s:g} s")
        return SynthesisTimeout(f"no more audio came for {self._sound_s:g} s")

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


async def timed_out(
    timeouts: RecordTimeouts, services: RequestServices, model: str, request_id: str
) -> AntiphonError:
    """The error of a request whose time is up: Overloaded if no worker took it, which also takes it
    out of the queue.
    """
    error = timeouts.exhausted()
    if not timeouts.first or not isinstance(error, SynthesisTimeout):
        return error
    queue = services.bus.queue
    try:
        for stage in (TALKER, VOCODER):
            if await queue.withdraw(stage, model, request_id):
                return Overloaded(_NO_SLOT)
        # Its talker may wait for room in the vocoders' queue.
        if await queue.waiting(VOCODER, model):
            return Overloaded(_NO_SLOT)
    except BusUnavailable as unavailable:
        log_.info("queue.unseen", request_id=request_id, error=unavailable.message)
    return error
