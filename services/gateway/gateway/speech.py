"""One request from its submission to its one end, however it is delivered to the client."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import structlog

from gateway import errors
from gateway.admission import Admission
from gateway.errors import ClientTooSlow, InputTimeout, NotFound, SynthesisTimeout
from gateway.rescue import Queues, Rescue
from gateway.settings import GatewaySettings
from gateway.stages import stages
from ttscommon import subjects
from ttscommon.bus import Bus, LogReader
from ttscommon.errors import AntiphonError
from ttscommon.messages import AudioChunk, End, Playback, SpeechRequest, TextPiece
from ttscommon.metrics import Metrics
from ttscommon.playback import PlaybackAccount
from ttscommon.subjects import AUDIO, CODES, TALKER, TEXT
from ttscommon.tasks import stop

_TEXT_END_TIMEOUT_S: Final = 5.0
# Whoever waits for a first sound waits in silence.
_LOOK_EARLY_S: Final = 0.3
_LOOK_AGAIN_S: Final = 0.5
_REPORT_EVERY_S: Final = 1.0

log_ = structlog.get_logger(__name__)


class LateText:
    """The text that follows a SpeechRequest's own, on its way from client to talker."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque()
        self._changed = asyncio.Event()
        self.complete = False
        self.touched_s = time.monotonic()

    def push(self, text: str) -> None:
        if text:
            self._pieces.append(text)
        self._touch()

    def finish(self) -> None:
        self.complete = True
        self._touch()

    async def next(self) -> str | None:
        """What has come since the last call, as one piece; None at the end."""
        while not self._pieces:
            if self.complete:
                return None
            self._changed.clear()
            await self._changed.wait()
        text = "".join(self._pieces)
        self._pieces.clear()
        return text

    def _touch(self) -> None:
        self.touched_s = time.monotonic()
        self._changed.set()


@dataclass(frozen=True)
class Resume:
    """Where a listener goes on: `sample` of the log, which is `heard_s` into the request."""

    sample: int
    heard_s: float


@dataclass(frozen=True)
class Backstage:
    """What every request needs of the gateway it runs in."""

    settings: GatewaySettings
    bus: Bus
    admission: Admission
    metrics: Metrics
    chores: set[asyncio.Task[Any]] = field(default_factory=set)
    queues: Queues = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "queues", Queues(self.bus))

    def cancel(self, request_id: str, reason: str) -> None:
        """Tell the stages, without waiting for the broker and whatever happens to the caller."""
        chore = asyncio.create_task(self.bus.cancel(request_id, reason))
        self.chores.add(chore)
        chore.add_done_callback(self.chores.discard)


class Speech:
    """A running request: an async context manager and an iterator over its AudioChunks.

    Entering submits it; the iterator stops after an `ok` End and raises a typed error after any
    other. Leaving before the end cancels both stages, unless `detached` is set: then somebody
    may resume. `handed` must be called for everything that was given to the listener: the
    account, the metrics and the stages' deadlines follow it.

    With `resume` the request was submitted before, here or elsewhere: it is only listened to.
    """

    def __init__(
        self,
        backstage: Backstage,
        request: SpeechRequest,
        late_text: LateText | None = None,
        resume: Resume | None = None,
    ) -> None:
        self.detached = False
        self.request = request
        self.account: PlaybackAccount | None = None
        self.outcome: str = "cancelled"
        self.ttfp_s: float | None = None
        self.stages: dict[str, float] = {}
        self._backstage = backstage
        self._late_text = late_text
        self._resume = resume
        self._stack = AsyncExitStack()
        self._writer: asyncio.Task[None] | None = None
        self._ended = False
        self._rescue = Rescue(backstage.bus, backstage.queues, request.request_id)
        self._accepted_s = self._last_s = time.monotonic()
        self._reported_s = 0.0

    @property
    def request_id(self) -> str:
        return self.request.request_id

    async def __aenter__(self) -> Self:
        """Raises Overloaded, Unavailable, Draining, BusUnavailable; NotFound on a resume."""
        async with AsyncExitStack() as stack:
            self._grant = stack.enter_context(
                self._backstage.admission.stream(self.request, resumed=self._resume is not None)
            )
            self.request = msgspec.structs.replace(self.request, priority=self._grant.priority)
            bus = self._backstage.bus
            start = self._resume.sample if self._resume else 0
            self._reader: LogReader = await stack.enter_async_context(
                bus.reader(AUDIO, self.request_id, start, fresh=self._resume is None)
            )
            if self._resume is not None:
                await self._require_known()
            stack.callback(self._settle)
            self.outcome = "error"
            if self._resume is None:
                await bus.submit(TALKER, self.request)
            self.outcome = "cancelled"
            if self._resume is not None:
                self._writer = asyncio.create_task(self._end_text())
            elif self._late_text is not None:
                self._writer = asyncio.create_task(self._write_text(self._late_text))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and not isinstance(error, asyncio.CancelledError | ClientTooSlow):
            self.outcome = "error"
            self.detached = False
        if self._writer is not None:
            if self.detached:
                await self._finish_text(self._writer)
            await stop(self._writer, again_s=1.0)
        await self._stack.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AudioChunk:
        record = await self._next_record()
        self._last_s = time.monotonic()
        if isinstance(record, End):
            self._ended = True
            if record.outcome == "ok":
                self.outcome = "ok"
                raise StopAsyncIteration
            if record.outcome == "cancelled":
                raise errors.SynthesisFailed("the request was cancelled behind the gateway")
            raise errors.from_end(record)
        assert isinstance(record, AudioChunk)
        if record.spent and self._resume is None:
            self.stages = stages(self._last_s - self._accepted_s, record.spent)
        return record

    async def handed(self, samples: int, sample_rate: int) -> None:
        """`samples` were just given to the listener's connection."""
        now = time.monotonic()
        if self.account is None:
            self.account = PlaybackAccount(sample_rate)
            self.ttfp_s = now - self._accepted_s
            if self._resume is None:
                self._backstage.metrics.ttfp.labels("gateway").observe(self.ttfp_s)
                if self._late_text is None:  # else much of the wait may be the typist's
                    self._grant.spoke(self.ttfp_s)
            self._grant.silence_ends()
        arrival = self.account.feed(samples, now)
        metrics = self._backstage.metrics
        metrics.chunks.labels(str(arrival.viable).lower()).inc()
        if arrival.slack_s is not None:
            metrics.slack.labels("gateway").observe(arrival.slack_s)
        if arrival.underrun_s > 0:
            metrics.underrun.inc(arrival.underrun_s)
        if arrival.underrun_s > 0 or now - self._reported_s >= _REPORT_EVERY_S:
            self._reported_s = now
            heard_s = self._resume.heard_s if self._resume else 0.0
            await self._report_playback(heard_s + self.account.position_s(now))

    def played_s(self) -> float:
        """How far a listener who plays at once has heard."""
        return self.account.position_s(time.monotonic()) if self.account else 0.0

    async def _report_playback(self, position_s: float) -> None:
        subject = subjects.playback(self.request_id)
        await self._backstage.bus.send(subject, Playback(self.request_id, position_s))

    async def _next_record(self) -> object:
        while True:
            patience = self._patience_s()
            if patience <= 0:
                raise self._impatience()
            try:
                # While text is still coming the limit moves, so look again now and then.
                look_s = _LOOK_EARLY_S if self.account is None else _LOOK_AGAIN_S
                async with asyncio.timeout(min(patience, look_s)):
                    return await anext(self._reader)
            except TimeoutError:
                self._check_writer()
            await self._rescue.look()

    def _patience_s(self) -> float:
        """How much longer to wait for the next record."""
        settings, text = self._backstage.settings, self._late_text
        now = time.monotonic()
        if text is not None and not text.complete:
            return text.touched_s + settings.input_timeout_s - now
        first = self.account is None and self._last_s == self._accepted_s
        limit = settings.first_audio_timeout_s if first else settings.stall_timeout_s
        since = max(self._last_s, text.touched_s) if text is not None else self._last_s
        return since + limit - now

    def _impatience(self) -> AntiphonError:
        settings = self._backstage.settings
        if self._late_text is not None and not self._late_text.complete:
            return InputTimeout(f"no text came for {settings.input_timeout_s:g} s")
        if self._last_s == self._accepted_s:
            return SynthesisTimeout(f"no audio came in {settings.first_audio_timeout_s:g} s")
        return SynthesisTimeout(f"no more audio came for {settings.stall_timeout_s:g} s")

    async def _write_text(self, text: LateText) -> None:
        writer = await self._backstage.bus.writer(TEXT, self.request_id, epoch=1)
        try:
            while (piece := await text.next()) is not None:
                self._grant.text(len(piece))
                await writer.put(TextPiece(self.request_id, writer.position, piece))
            await writer.end(End(self.request_id, writer.position, "ok"))
            await writer.close()
        finally:
            await writer.release()

    async def _require_known(self) -> None:
        """A request that wrote nothing was never submitted, or is gone for good."""
        for log in (AUDIO, CODES):
            if await self._backstage.bus.logs.last(log, self.request_id) is not None:
                return
        raise NotFound("there is no such request, or it is too old to go on", param="request_id")

    async def _end_text(self) -> None:
        """Nobody types any more what the lost connection was typing: say what had come."""
        try:
            writer = await self._backstage.bus.writer(TEXT, self.request_id, 2, restore=False)
            try:
                if not writer.ended:
                    await writer.end(End(self.request_id, writer.position, "ok"))
                await writer.close()
            finally:
                await writer.release()
        except AntiphonError as error:
            log_.warning("resume.text_left_open", request_id=self.request_id, error=error.message)

    async def _finish_text(self, writer: asyncio.Task[None]) -> None:
        """The typist is gone: what came is the text."""
        if self._late_text is not None:
            self._late_text.finish()
        await asyncio.wait((writer,), timeout=_TEXT_END_TIMEOUT_S)

    def _check_writer(self) -> None:
        if self._writer is not None and self._writer.done():
            self._writer.result()

    def _settle(self) -> None:
        """The request is over for this gateway: free the stages if need be, and count it."""
        if self.detached and not self._ended:
            self.outcome = "detached"
        elif not self._ended:
            self._backstage.cancel(self.request_id, self.outcome)
        viable = self.account is None or self.account.viable
        metrics = self._backstage.metrics
        metrics.streams.labels(self.outcome, str(viable).lower()).inc()
        took_s = self._last_s - self._accepted_s
        whole = self._late_text is None and self._resume is None
        if self._ended and self.account is not None and whole:
            metrics.rtf.observe(took_s / self.account.duration_s)
        log_.info(
            "request.ended",
            request_id=self.request_id,
            outcome=self.outcome,
            viable=viable,
            took_s=round(took_s, 4),
            ttfp_s=self.ttfp_s and round(self.ttfp_s, 4),
            duration_s=self.account and round(self.account.duration_s, 3),
        )
