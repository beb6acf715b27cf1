"""One request from its source to its one end, however it is delivered to the client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from enum import Enum, auto
from typing import Self

import structlog
from opentelemetry import trace

from gateway import errors
from gateway.admission import Applicant, Grant
from gateway.audio import AudioEncoder, ClientPipe, Provenance
from gateway.errors import ClientTooSlow, HeardElsewhere
from gateway.requests.delivery import ListenerDelivery
from gateway.requests.options import SpeechSpec
from gateway.requests.services import RequestServices
from gateway.requests.sources import SpeechSource
from gateway.requests.waiting import Waiting
from ttscommon.bus import AudioReader
from ttscommon.process import tracing
from ttscommon.process.metrics import RequestOutcome
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import AntiphonError, Overloaded, Runaway
from ttscommon.wire.messages import AudioChunk, End

log_ = structlog.get_logger(__name__)


class RequestPhase(Enum):
    """How far a request is: nothing to say yet, heard here, or past its End."""

    WAITING = auto()
    RUNNING = auto()
    ENDED = auto()


class Leaving(Enum):
    """What becomes of a request that its connection leaves before its End.

    It is cancelled, or kept for its client, which may come back, or handed on to another connection
    over which the client hears it already.
    """

    CANCEL = auto()
    KEEP = auto()
    HAND_ON = auto()


class Speech:
    """A running request: an async context manager and an iterator over its AudioChunks.

    Entering waits for something to say, holds a place and has it spoken; the iterator stops after
    an `ok` End or `cancel`, and after an End that says that the model lost its text, which
    `runaway` then holds; it raises a typed error after any other End. Leaving before the end
    cancels both stages, unless `keep` was called: then the client may attach again. The caller
    calls `handed` for everything that it gave to the client; `delivery` accounts for it.
    """

    def __init__(self, services: RequestServices, source: SpeechSource) -> None:
        self.delivery = ListenerDelivery(services, source)
        self.outcome: RequestOutcome = "cancelled"
        self.runaway: AntiphonError | None = None
        # Called with what it waits for, where workers are missing.
        self.on_wait: Callable[[Speech, AntiphonError], None] = lambda speech, error: None
        self._services = services
        self._source = source
        self._phase = RequestPhase.WAITING
        self._leaving = Leaving.CANCEL
        self._given_up = False
        self._stack = AsyncExitStack()
        self._place = ExitStack()
        self._duty: asyncio.Task[None] | None = None

    @property
    def begun(self) -> bool:
        """Whether there was anything to say yet."""
        return self._phase is not RequestPhase.WAITING

    @property
    def reported_s(self) -> float:
        """When the stages heard last of its listener."""
        return self.delivery.reported_s

    @property
    def request_id(self) -> str:
        return self._source.request_id

    @property
    def spec(self) -> SpeechSpec:
        return self._source.spec

    @property
    def sample_rate(self) -> int:
        """What the client hears, in Hz."""
        return self.spec.sample_rate

    @property
    def provenance(self) -> Provenance | None:
        """What its sound says of its origin; None where the operator turned that off."""
        return self._services.provenance(self.spec.model.name)

    @property
    def seed(self) -> int | None:
        """What it is sampled with; None where another gateway chose it."""
        return self._source.seed

    @property
    def fresh(self) -> bool:
        """It begins here; no client heard any of it before."""
        return self._source.fresh

    @property
    def characters(self) -> int:
        """Characters of its text so far; 0 where another connection brought the text."""
        if not self.fresh:
            return 0
        text = self._source.text
        return self._applicant.characters if text is None else text.characters

    @property
    def resume_token(self) -> str | None:
        """What the client has to show when it comes back, if it may."""
        if not self.spec.resumable:
            return None
        return self._services.tokens.issue(self.request_id, self.spec.tenant)

    def pipe(self, encoder: AudioEncoder | None = None) -> ClientPipe:
        """The way of its audio to its client's bytes."""
        spec, skip, watermark = self.spec, self._source.skip, self._services.watermark
        made_hz, gain = spec.model.sample_rate, spec.gain
        return ClientPipe(made_hz, self.sample_rate, encoder, skip, spec.stretch, gain, watermark)

    async def __aenter__(self) -> Self:
        """Raises NothingToSay, TextTooLong, Overloaded, Unavailable, Draining, BusUnavailable;
        NotFound if there is nothing to attach to.
        """
        self._applicant = await self._source.prepare(self._services.settings.coalesce_s)
        self.delivery.accept()
        spec = self.spec
        self._span = tracing.request_span(
            self.request_id, spec.model.name, spec.voice.id, spec.tenant
        )
        try:
            await self._begin(self._applicant)
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
            if await admission.wait(applicant) and applicant.max_wait_s:
                self.delivery.accept()  # the client asked to wait
            self._grant: Grant = self._place.enter_context(admission.stream(applicant))
            stack.callback(self._leave_place)
            self._waiting = Waiting(self._services, source, self.delivery.accepted_s)
            self._grant.slack_s = self._slack_s
            self._reader: AudioReader = await stack.enter_async_context(
                bus.audio_reader(self.request_id, source.start, fresh=source.fresh)
            )
            await source.require()
            self._reader.remake()
            self._grant.give_up = self._give_up
            self._services.retention.begin(
                self.request_id, fresh=source.fresh, resumable=self.spec.resumable
            )
            stack.callback(self._settle)
            listeners.begin(self)
            stack.callback(listeners.end, self)
            if not source.fresh:
                await listeners.announce(self)
            try:
                with trace.use_span(self._span):
                    await source.begin(self._grant, self.delivery.headroom_s())
            except Exception as error:
                self._fail(error)
                raise
            self.delivery.begin()
            if (duty := source.duty(self._grant)) is not None:
                self._duty = asyncio.create_task(duty, name=f"text-{self.request_id}")
            self._stack = stack.pop_all()
        self._phase = RequestPhase.RUNNING

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        harmless = asyncio.CancelledError | ClientTooSlow | HeardElsewhere
        if error is not None and not isinstance(error, harmless):
            self._fail(error)
            if self._leaving is Leaving.KEEP:
                self._leaving = Leaving.CANCEL
        if self._duty is not None:
            if self._leaving is not Leaving.CANCEL:
                await self._finish_text(self._duty)
            await stop(self._duty, again_s=1.0)
        await self._stack.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AudioChunk:
        try:
            record = await self._waiting.next(self._reader, self._duty, self._wait)
        except StopAsyncIteration:
            if self._leaving is Leaving.HAND_ON:
                raise HeardElsewhere("the request goes on over another connection") from None
            if self._given_up:
                raise Overloaded("other listeners would have run dry") from None
            raise
        self._waiting.came()
        self._grant.wake()
        if isinstance(record, End):
            self._end(record)
            raise StopAsyncIteration
        assert isinstance(record, AudioChunk)
        self.delivery.came(record)
        return record

    def cancel(self) -> None:
        """End the iteration; leaving then frees both stages."""
        self._leaving = Leaving.CANCEL
        self._reader.stop()

    def keep(self) -> None:
        """Keep the request if its listener leaves before the end: the client may come back."""
        if self._leaving is Leaving.CANCEL:
            self._leaving = Leaving.KEEP

    def supersede(self) -> None:
        """Its client, or another holder of its token, hears it over another connection."""
        self._leaving = Leaving.HAND_ON
        self._reader.stop()

    async def handed(self, samples: int) -> None:
        """`samples` at the client's rate were just given to its connection."""
        self.delivery.count_text(self.characters)
        await self.delivery.handed(samples, self._grant, self._span)

    def _slack_s(self, now: float) -> float | None:
        """What its listener has left, where workers are what it waits for."""
        text = self._source.text
        if not self._waiting.on_stages or (text is not None and not text.complete):
            return None
        return self.delivery.slack_s(now, self._services.admission.limits.loop.heard_s)

    def _wait(self, lacking: AntiphonError) -> None:
        log_.info("request.waits", request_id=self.request_id, reason=lacking.message)
        self.on_wait(self, lacking)

    def _give_up(self) -> None:
        """End it, so that others do not run dry."""
        self._given_up = True
        self._reader.stop()

    def _fail(self, error: BaseException) -> None:
        """It ends too early. One for which there is no room after all is refused, if late."""
        self.outcome = "error"
        if isinstance(error, Overloaded):
            self.outcome = "refused"
            self._services.admission.refuse(self._applicant, error)

    def _end(self, end: End) -> None:
        self._phase = RequestPhase.ENDED
        if end.code == Runaway.code:
            self.outcome, self.runaway = "runaway", errors.from_end(end)
            return
        if end.outcome == "cancelled":
            raise errors.SynthesisFailed("the request was cancelled behind the gateway")
        if end.outcome != "ok":
            raise errors.from_end(end)
        self.outcome = "ok"

    async def _finish_text(self, duty: asyncio.Task[None]) -> None:
        """The client is gone: what came is the text."""
        if self._source.text is not None:
            self._source.text.finish()
        await asyncio.wait((duty,), timeout=self._services.tuning.text_end_s)

    def _settle(self) -> None:
        """The request is over for this gateway: free the stages if need be, and count it."""
        ended = self._phase is RequestPhase.ENDED
        if not ended and self._leaving is not Leaving.CANCEL:
            self.outcome = "detached"
        elif not ended:
            self._services.cancel(self.request_id, self.outcome, ended=self._reader.log_ended)
        self._leave_logs()
        self.delivery.settle(self.outcome, self.characters, self._waiting.last_s if ended else None)
        viable = self.delivery.viable
        self._span.set_attributes({"antiphon.outcome": self.outcome, "antiphon.viable": viable})
        with trace.use_span(self._span):
            self._log_end(viable, self._waiting.last_s - self.delivery.accepted_s)
        tracing.finish(self._span, error="error" if self.outcome == "error" else None)

    def _leave_logs(self) -> None:
        retention = self._services.retention
        if self._leaving is Leaving.HAND_ON:
            retention.handed_on(self.request_id)
            return
        cancelled = self._phase is not RequestPhase.ENDED and self._leaving is Leaving.CANCEL
        resumable, text = self.spec.resumable and not cancelled, self._source.text is not None
        retention.left(self.request_id, resumable, text or not self.fresh, cancelled)

    def _leave_place(self) -> None:
        """A client that may come back keeps its place until its request has its End."""
        if self._phase is RequestPhase.RUNNING and self._leaving is Leaving.KEEP:
            self._services.listeners.keep_place(self.request_id, self._place.pop_all().close)
        else:
            self._place.close()

    def _log_end(self, viable: bool, took_s: float) -> None:
        delivery = self.delivery
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
            ttfp_s=delivery.ttfp_s and round(delivery.ttfp_s, 4),
            duration_s=delivery.account and round(delivery.duration_s, 3),
        )
