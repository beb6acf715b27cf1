"""Sources of a request: a new one is submitted, one that runs already is attached to."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeGuard

import structlog

from gateway.admission import Applicant, Grant
from gateway.errors import NotFound
from gateway.requests.incremental import IncrementalText
from gateway.requests.lexicon import LexiconMatcher
from gateway.requests.options import SpeechSpec
from ttscommon.bus import Bus
from ttscommon.bus.faults import Unreachable
from ttscommon.bus.logs.logstore import StoredRecord
from ttscommon.wire.errors import AntiphonError
from ttscommon.wire.messages import End, LogRecord, SpeechRequest, TextPiece
from ttscommon.wire.pieces import Marked
from ttscommon.wire.requests import OFFLINE
from ttscommon.wire.subjects import AUDIO, CODES, TALKER, TEXT, VOCODER

_SEEDS: Final = 1 << 31
# The gateway that lost its client wrote the text log with epoch 1.
_AFTER_A_LOSS: Final = 2

log_ = structlog.get_logger(__name__)


class SpeechSource(Protocol):
    """What a Speech needs to know of its request's origin.

    `fresh`: nothing was ever written for this request. `start`: the first sample of the audio log
    that is wanted. `skip`: samples at the client's rate that are not sent. `heard_s`: how far into
    the request the client is when it begins. `text`: what is still being written, if anything is.
    `rows`: its text is rows, which come over any connection.
    """

    request_id: str
    spec: SpeechSpec
    fresh: bool
    start: int
    skip: int
    heard_s: float
    seed: int | None
    text: IncrementalText | None
    rows: bool

    async def prepare(self, coalesce_s: float) -> Applicant:
        """Wait until there is something to ask for; raises NothingToSay, TextTooLong."""

    async def require(self) -> None:
        """Raises NotFound if there is nothing to attach to, StoreUnavailable."""

    async def begin(self, grant: Grant, headroom_s: float) -> None:
        """Have it spoken; raises Overloaded, BusUnavailable. headroom_s: see SpeechRequest."""

    def duty(self, grant: Grant) -> Coroutine[Any, Any, None] | None:
        """What has to go on beside the request, if anything has."""


class Submit:
    """A new request: a job for the talkers, and its later text in its own log."""

    fresh = True
    start = skip = 0
    heard_s = 0.0

    def __init__(
        self,
        bus: Bus,
        spec: SpeechSpec,
        text: IncrementalText,
        request_id: str,
        listener_timeout_s: float = 0.0,
        *,
        rows: bool = False,
    ) -> None:
        """`listener_timeout_s`: how long the stages go on without one that cannot resume. rows: its
        text is rows; see Production.
        """
        self.request_id = request_id
        self.rows = rows
        self.spec = spec
        given = spec.seed
        self.seed: int | None = secrets.randbelow(_SEEDS) if given is None else given
        self.text: IncrementalText | None = None
        self._bus = bus
        self._given = text
        self._head, self._final = Marked(""), False
        self._listener_timeout_s = 0.0 if spec.resumable else listener_timeout_s
        if spec.lexicons:
            text.use_lexicons(LexiconMatcher(spec.lexicons))

    async def prepare(self, coalesce_s: float) -> Applicant:
        if not self.rows:  # of which nothing is in the job
            self._head, self._final = await self._given.head(coalesce_s, optional=self.spec.answers)
            self.text = None if self._final else self._given
        spec, characters = self.spec, len(self._head.text)
        if spec.offline:
            return Applicant(
                spec.tenant, spec.model.name, characters, priority=OFFLINE, offline=True
            )
        return Applicant(spec.tenant, spec.model.name, characters, max_wait_s=spec.max_wait_s)

    async def require(self) -> None:
        """A new request needs a broker that stores it; raises StoreUnavailable."""
        self._bus.link.store.require()

    async def begin(self, grant: Grant, headroom_s: float) -> None:
        if (text := self.text) is not None:
            grant.follow(lambda: None if text.complete else text.touched_s)
        await self._bus.submit(TALKER, self._job(grant.priority, headroom_s))

    def duty(self, grant: Grant) -> Coroutine[Any, Any, None] | None:
        return None if self.text is None else self._write_text(self.text, grant)

    def _job(self, priority: int, headroom_s: float) -> SpeechRequest:
        spec = self.spec
        return SpeechRequest(
            request_id=self.request_id,
            model=spec.model.name,
            voice=spec.voice.id,
            text=self._head.text,
            text_final=self._final,
            marks=self._head.marks,
            spans=self._head.spans,
            language=spec.language or spec.voice.language,
            sampling=spec.options.sampling,
            instructions=spec.options.instructions or "",
            task_type=spec.options.task_type or "",
            whole_text=self._whole_text(),
            reference=spec.reference,
            turns=spec.turns,
            speaker=spec.options.speaker,
            extra_params=dict(spec.options.extra_params),
            seed=self.seed or 0,
            speed=spec.model_speed,
            priority=priority,
            tenant=spec.tenant,
            created_unix_s=time.time(),
            listener_timeout_s=self._listener_timeout_s,
            adapter=spec.adapter,
            runaway_guard=spec.options.runaway_guard is not False,
            rows=self.rows,
            headroom_s=headroom_s,
        )

    def _whole_text(self) -> bool | None:
        """As asked for. A text that comes piece by piece is spoken as one even where all of it
        happens to be there at once: timing must not change what a model is told.
        """
        asked = self.spec.options.non_streaming_mode
        return False if asked is None and self._given.live else asked

    async def _write_text(self, text: IncrementalText, grant: Grant) -> None:
        tenant = self.spec.tenant
        writer = await self._bus.writer(TEXT, self.request_id, epoch=1, tenant=tenant)
        try:
            while (written := await text.next()) is not None:
                grant.add_text(len(written.text))
                said, marks, spans = written
                piece = TextPiece(self.request_id, writer.position, said, marks, spans=spans)
                await writer.put(piece)
            await writer.end(End(self.request_id, writer.position, "ok"))
            await writer.close()
        finally:
            await writer.release()


class Attach:
    """A request that runs, or has ended, and whose client goes on at `from_sample`."""

    fresh = False
    text: IncrementalText | None = None
    rows = False

    def __init__(
        self,
        bus: Bus,
        spec: SpeechSpec,
        request_id: str,
        from_sample: int,
        check: Callable[[], None],
        *,
        before: int = 0,
        timed: bool = False,
    ) -> None:
        """`check` raises NotFound where the client may not hear this request. before: so many
        samples in front of `from_sample` are needed to make it. timed: all words are wanted, those
        as well whose audio is not.
        """
        self._check = check
        self.request_id = request_id
        self.spec = spec
        self.seed = spec.seed
        self._bus = bus
        rate = spec.sample_rate
        # Other rates are made from the request's beginning: resampling and stretching remember.
        native = rate == spec.model.sample_rate and spec.stretch == 1.0 and not timed
        self.start = max(0, from_sample - before) if native else 0
        self.skip = from_sample - self.start
        self.heard_s = spec.stretch * from_sample / rate

    async def prepare(self, coalesce_s: float) -> Applicant:
        self._check()
        return Applicant(self.spec.tenant, self.spec.model.name, resumed=True)

    async def require(self) -> None:
        """A request that wrote nothing and waits nowhere was never submitted, or is gone."""
        audio = await self._bus.log(AUDIO, self.request_id).last()
        if self._is_ours(audio):
            await self._require_codes(audio.record)
            return
        for stage in (VOCODER, TALKER):  # what was heard may not be committed yet
            job = await self._bus.queue.find(stage, self.request_id)
            if job is not None and job.request.tenant == self.spec.tenant:
                return
        raise _too_late()

    def _is_ours(self, stored: StoredRecord | None) -> TypeGuard[StoredRecord]:
        return stored is not None and stored.tenant == self.spec.tenant

    async def _require_codes(self, audio: LogRecord) -> None:
        """Audio is made of codes; what of them the store has dropped never comes again."""
        if isinstance(audio, End) and audio.start <= self.start:
            return  # nothing is to be made
        try:
            first = await self._bus.log(CODES, self.request_id).first()
        except Unreachable:
            return  # the vocoder finds out, a little later
        if first is None and not isinstance(audio, End):
            return  # the first codes are heard before they are committed
        model = self.spec.model
        frame = int(self.start * model.frame_rate_hz / model.sample_rate)
        if first is None or first.record.start > frame:
            raise _too_late()

    async def begin(self, grant: Grant, headroom_s: float) -> None:
        """It was submitted long ago."""

    def duty(self, grant: Grant) -> Coroutine[Any, Any, None] | None:
        return self._end_text()

    async def _end_text(self) -> None:
        """The lost connection's text ends where the connection did. Rows do not: what produces them
        may come back, and the talker says so if it does not.
        """
        try:
            job = await self._bus.queue.find(TALKER, self.request_id)
            if job is not None and job.request.rows:
                self.rows = True
                return
            writer = await self._bus.writer(
                TEXT, self.request_id, _AFTER_A_LOSS, restore=False, tenant=self.spec.tenant
            )
            try:
                if not writer.ended:
                    await writer.end(End(self.request_id, writer.position, "ok"))
                await writer.close()
            finally:
                await writer.release()
        except AntiphonError as error:
            log_.warning("resume.text_left_open", request_id=self.request_id, error=error.message)


def _too_late() -> NotFound:
    return NotFound("there is no such request, or it is too old to go on", param="request_id")
