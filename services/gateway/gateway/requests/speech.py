"""One request from its source to its one end, however it is delivered to the client."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import Self

import structlog
from opentelemetry import trace

from gateway import errors
from gateway.admission import Applicant, Grant
from gateway.errors import ClientTooSlow, HeardElsewhere
from gateway.requests.breakdown import breakdown
from gateway.requests.patience import Patience, exhausted
from gateway.requests.services import RequestServices
from gateway.requests.sources import Source, SpeechSpec
from ttscommon.bus import AudioReader
from ttscommon.process import tracing
from ttscommon.process.tasks import stop
from ttscommon.sound.playback import PlaybackAccount
from ttscommon.wire import subjects
from ttscommon.wire.messages import AudioChunk, End, Playback

log_ = structlog.get_logger(__name__)


class Speech:
    """A running request: an async context manager and an iterator over its AudioChunks.

    Entering waits for something to say, holds a place and has it spoken; the iterator stops after
    an `ok` End or `cancel`, and raises a typed error after any other End. Leaving before the end
    cancels both stages, unless `detached` is set: then the client may attach again. `handed` must
    be called for everything that was given to the client: the account, the metrics and the stages'
    deadlines follow it.
    """

    def __init__(self, services: RequestServices, source: Source) -> None:
        self.begun = False
        self.detached = False
        self.account: PlaybackAccount | None = None
        self.outcome: str = "cancelled"
        self.ttfp_s: float | None = None
        self.stages: dict[str, float] = {}
        self._services = services
        self._source = source
        self._stack = AsyncExitStack()
        self._duty: asyncio.Task[None] | None = None
        self._ended = False
        self._accepted_s = self._last_s = time.monotonic()
        self.reported_s = 0.0
        self._superseded = False
        self._place = ExitStack()
        spec = source.spec
        self._listener = services.metrics.listener(spec.model.name, spec.tenant)

    @property
    def request_id(self) -> str:
        return self._source.request_id

    @property
    def spec(self) -> SpeechSpec:
        return self._source.spec

    @property
    def source_hz(self) -> int:
        """What the model makes."""
        return self.spec.model.sample_rate

    @property
    def sample_rate(self) -> int:
        """What the client hears, in Hz."""
        return self.spec.sample_rate

    @property
    def stretch(self) -> float:
        """How many times as fast as it is made the client hears it."""
        return self.spec.stretch

    @property
    def seed(self) -> int | None:
        """What it is sampled with; None where another gateway chose it."""
        return self._source.seed

    @property
    def fresh(self) -> bool:
        """It begins here; nobody heard any of it before."""
        return self._source.fresh

    @property
    def characters(self) -> int:
        """Of its text, as far as it has come; 0 where another connection brought the text."""
        if not self.fresh:
            return 0
        text = self._source.text
        return self._characters if text is None else text.characters

    @property
    def resume_token(self) -> str | None:
        """What the client has to show when it comes back, if it may."""
        if not self.spec.resumable:
            return None
        return self._services.tokens.issue(self.request_id, self.spec.tenant)

    @property
    def skip(self) -> int:
        """Samples at the client's rate that it has already."""
        return self._source.skip

    async def __aenter__(self) -> Self:
        """Raises NothingToSay, TextTooLong, Overloaded, Unavailable, Draining, BusUnavailable;
        NotFound if there is nothing to attach to.
        """
        applicant = await self._source.prepare(self._services.settings.coalesce_s)
        self._accepted_s = self._last_s = time.monotonic()
        self._characters = applicant.characters
        spec = self.spec
        self._span = tracing.request_span(
            self.request_id, spec.model.name, spec.voice.id, spec.tenant
        )
        try:
            await self._begin(applicant)
        except BaseException as error:
            tracing.finish(self._span, error=getattr(error, "code", type(error).__name__))
            raise
        return self

    async def _begin(self, applicant: Applicant) -> None:
        source, bus = self._source, self._services.bus
        admission, listeners = self._services.admission, self._services.listeners
        async with AsyncExitStack() as stack:
            if applicant.resumed:
                listeners.give_up_place(self.request_id)
            applicant = await admission.turn(applicant)
            self._grant: Grant = self._place.enter_context(admission.stream(applicant))
            stack.callback(self._leave_place)
            self._reader: AudioReader = await stack.enter_async_context(
                bus.audio_reader(self.request_id, source.start, fresh=source.fresh)
            )
            await source.require()
            self._reader.remake()
            self._services.retention.begin(
                self.request_id, fresh=source.fresh, resumable=self.spec.resumable
            )
            stack.callback(self._settle)
            listeners.begin(self)
            stack.callback(listeners.end, self)
            if not source.fresh:
                await listeners.announce(self)
            self.outcome = "error"
            with trace.use_span(self._span):
                await source.begin(self._grant)
            self.outcome = "cancelled"
            if (duty := source.duty(self._grant)) is not None:
                self._duty = asyncio.create_task(duty, name=f"text-{self.request_id}")
            self._stack = stack.pop_all()
        self.begun = True

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        harmless = asyncio.CancelledError | ClientTooSlow | HeardElsewhere
        if error is not None and not isinstance(error, harmless):
            self.outcome = "error"
            self.detached = False
        if self._duty is not None:
            if self.detached:
                await self._finish_text(self._duty)
            await stop(self._duty, again_s=1.0)
        await self._stack.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AudioChunk:
        try:
            record = await self._next_record()
        except StopAsyncIteration:
            if self._superseded:
                raise HeardElsewhere("the request goes on over another connection") from None
            raise
        self._last_s = time.monotonic()
        self._grant.wake()
        if isinstance(record, End):
            self._ended = True
            if record.outcome == "ok":
                self.outcome = "ok"
                raise StopAsyncIteration
            if record.outcome == "cancelled":
                raise errors.SynthesisFailed("the request was cancelled behind the gateway")
            raise errors.from_end(record)
        assert isinstance(record, AudioChunk)
        if record.spent and self.fresh:
            self.stages = breakdown(self._last_s - self._accepted_s, record.spent)
        return record

    def cancel(self) -> None:
        """End the iteration; leaving then frees both stages."""
        self.detached = False
        self._reader.stop()

    def supersede(self) -> None:
        """Its client, or whoever has its token, hears it over another connection."""
        self._superseded = self.detached = True
        self._reader.stop()

    async def handed(self, samples: int) -> None:
        """`samples` at the client's rate were just given to its connection."""
        now = time.monotonic()
        if self.account is None:
            self.account = PlaybackAccount(self.sample_rate)
            self._first_sound(now - self._accepted_s)
        before_s = self.account.duration_s
        arrival = self.account.feed(samples, now)
        metrics = self._services.metrics
        metrics.chunks.labels(str(arrival.viable).lower(), *self._listener).inc()
        metrics.audio.labels(*self._listener).inc(samples / self.sample_rate)
        if arrival.slack_s is not None:
            metrics.chunk("gateway", arrival.slack_s, before_s, self.spec.model.name)
        if arrival.underrun_s > 0:
            metrics.underrun.labels(*self._listener).inc(arrival.underrun_s)
        overdue = now - self.reported_s >= self._services.tuning.report_every_s
        if arrival.underrun_s > 0 or overdue:
            self.reported_s = now
            heard_s = self.stretch * self.account.position_s(now)
            await self._report_playback(self._source.heard_s + heard_s)

    def played_s(self) -> float:
        """How far a listener who plays at once has heard."""
        return self.account.position_s(time.monotonic()) if self.account else 0.0

    def _first_sound(self, ttfp_s: float) -> None:
        self.ttfp_s = ttfp_s
        if self.fresh:
            metrics = self._services.metrics
            found = tracing.trace_id(self._span)
            exemplar = {"trace_id": found} if found else None
            metrics.ttfp.labels("gateway", *self._listener).observe(ttfp_s, exemplar)
            self._span.add_event("first audio", {"antiphon.ttfp_s": ttfp_s})
            if self._source.text is None:  # else much of the wait may be the writer's
                self._grant.spoke(ttfp_s)
        self._grant.silence_ends()

    async def _report_playback(self, position_s: float) -> None:
        subject = subjects.playback(self.request_id)
        await self._services.bus.send(subject, Playback(self.request_id, position_s))

    async def _next_record(self) -> object:
        if (record := self._reader.at_hand()) is not None:
            return record
        while True:
            patience = self._patience()
            left_s = patience.left_s(time.monotonic())
            if left_s <= 0:
                raise await exhausted(
                    patience, self._services, self.spec.model.name, self.request_id
                )
            try:
                # While text is still coming the limit moves, so look again now and then.
                async with asyncio.timeout(min(left_s, self._services.tuning.look_s)):
                    return await anext(self._reader)
            except TimeoutError:
                self._raise_if_duty_failed()
                self._rest_if_text_pauses()

    def _patience(self) -> Patience:
        first = self.account is None and self._last_s == self._accepted_s
        services = self._services
        limits = services.admission.text_limits(self.spec.tenant)
        return Patience(services.settings, limits, self._source.text, self._last_s, first)

    def _rest_if_text_pauses(self) -> None:
        text = self._source.text
        if text is None or text.complete:
            return
        since_s = max(self._last_s, text.touched_s)
        if time.monotonic() - since_s >= self._services.tuning.rest_s:
            self._grant.rest()

    async def _finish_text(self, duty: asyncio.Task[None]) -> None:
        """The client is gone: what came is the text."""
        if self._source.text is not None:
            self._source.text.finish()
        await asyncio.wait((duty,), timeout=self._services.tuning.text_end_s)

    def _raise_if_duty_failed(self) -> None:
        if self._duty is not None and self._duty.done():
            self._duty.result()

    def _settle(self) -> None:
        """The request is over for this gateway: free the stages if need be, and count it."""
        if self.detached and not self._ended:
            self.outcome = "detached"
        elif not self._ended:
            ended = self._reader.log_ended
            self._services.cancel(self.request_id, self.outcome, ended=ended)
        self._leave_logs()
        viable = self.account is None or self.account.viable
        metrics = self._services.metrics
        metrics.streams.labels(self.outcome, str(viable).lower(), *self._listener).inc()
        metrics.characters.labels(*self._listener).inc(self.characters)
        took_s = self._last_s - self._accepted_s
        whole = self.fresh and self._source.text is None
        if self._ended and self.account is not None and whole:
            metrics.rtf.labels(self.spec.model.name).observe(took_s / self.account.duration_s)
        self._span.set_attributes({"antiphon.outcome": self.outcome, "antiphon.viable": viable})
        with trace.use_span(self._span):
            self._log_end(viable, took_s)
        tracing.finish(self._span, error="error" if self.outcome == "error" else None)

    def _leave_logs(self) -> None:
        retention = self._services.retention
        if self._superseded:
            retention.handed_on(self.request_id)
            return
        cancelled = not (self._ended or self.detached)
        resumable, text = self.spec.resumable and not cancelled, self._source.text is not None
        retention.left(self.request_id, resumable, text or not self.fresh, cancelled)

    def _leave_place(self) -> None:
        """A client that may come back keeps its place until its request has its End."""
        if self.detached and self.begun and not (self._ended or self._superseded):
            self._services.listeners.keep_place(self.request_id, self._place.pop_all().close)
        else:
            self._place.close()

    def _log_end(self, viable: bool, took_s: float) -> None:
        log_.info(
            "request.ended",
            request_id=self.request_id,
            tenant=self.spec.tenant,
            model=self.spec.model.name,
            voice=self.spec.voice.id,
            characters=self.characters,
            outcome=self.outcome,
            viable=viable,
            took_s=round(took_s, 4),
            ttfp_s=self.ttfp_s and round(self.ttfp_s, 4),
            duration_s=self.account and round(self.account.duration_s, 3),
        )
