"""The job queue: submit, find, requeue; a request has at most one job in each stage."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import nats.errors
import nats.js.errors
import structlog

from ttscommon.bus.deliveries import NAK
from ttscommon.bus.faults import (
    WRONG_LAST_SEQUENCE,
    Unreachable,
    available,
    code_of,
    is_queue_full,
    reason,
)
from ttscommon.bus.link import Link
from ttscommon.bus.streams import EXPECTED, Found, append, direct_get
from ttscommon.process import tracing
from ttscommon.process.tasks import stop
from ttscommon.wire.errors import BusUnavailable, MalformedMessage, Overloaded
from ttscommon.wire.messages import SpeechRequest, decode, encode
from ttscommon.wire.subjects import STAGES, TALKER, VOCODER, Stage

# The broker finds at most 1,024 at once.
_ASKED_AT_ONCE: Final = 512

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class QueueTuning:
    """Submitting jobs."""

    submit_s: float = 10.0
    """How long a submission may fail: three brokers that lost a leader are without one for four to
    nine seconds.
    """
    first_pause_s: float = 0.05
    """Between two attempts, doubled each time."""
    longest_pause_s: float = 0.25
    """The longest such pause."""


@dataclass(frozen=True)
class QueuedJob:
    """A job in the queue, given to a worker or not. `trace`: headers that name its trace."""

    sequence: int
    request: SpeechRequest
    trace: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Backlog:
    """A consumer's view: jobs that no worker was given yet, and the last that one was given.

    deliveries: how often a worker was given any job. pulls: workers that wait for one; while there
    are any, no job waits that may be given.
    """

    waiting: int
    given: int
    deliveries: int = 0
    pulls: int = 0


class JobQueue:
    """The queues of both stages. A request has at most one job in each."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._tuning = QueueTuning()

    async def submit(self, stage: Stage, request: SpeechRequest) -> None:
        """Queue a job, unless the request has one: to submit it twice changes nothing.

        Raises Overloaded when the queue is full, StoreUnavailable as soon as it is known that the
        broker cannot store it, BusUnavailable when the broker stays silent.
        """
        await self._submit(stage, request, expected=0)

    async def requeue(self, stage: Stage, job: QueuedJob) -> bool:
        """Replace a job that was given to a worker and that no worker works on.

        The new message's epochs are higher. False if another gateway was faster, or a worker has
        acknowledged the job. Raises Overloaded, BusUnavailable.
        """
        again = job.request.again_now()
        with tracing.within(job.trace):
            if not await self._submit(stage, again, expected=job.sequence):
                return False
        try:
            await self._link.jetstream.delete_msg(self._stream(stage), job.sequence)
        except nats.js.errors.NotFoundError:
            return True
        except Unreachable as error:  # delivered again, it is found fenced and thrown away
            log_.info("requeue.old_left", request_id=again.request_id, error=reason(error))
        return True

    async def remake(self, request: SpeechRequest) -> bool:
        """Have the audio of an ended request made again; False if it has a vocode job already.

        Raises Overloaded, BusUnavailable.
        """
        request = msgspec.structs.replace(request, created_unix_s=time.time())
        attempt = secrets.token_hex(4)
        return await self._submit(VOCODER, request, expected=0, attempt=attempt)

    async def find(self, stage: Stage, request_id: str) -> QueuedJob | None:
        """The request's job, until a worker has acknowledged it; as any replica has it.

        Raises BusUnavailable.
        """
        found = await self._last(stage, [request_id])
        return _job(*found[-1]) if found else None

    async def held(self, request_ids: Sequence[str]) -> set[str]:
        """Those of the requests that have a job, in work or not; see `find`."""
        found: set[str] = set()
        for stage in STAGES.values():
            found |= await self.queued(stage, request_ids)
        return found

    async def queued(self, stage: Stage, request_ids: Sequence[str]) -> set[str]:
        """`held`, of the jobs of one stage."""
        jobs = await self._last(stage, request_ids)
        return {headers["Nats-Subject"].rsplit(".", 1)[1] for headers, _ in jobs}

    async def _last(self, stage: Stage, request_ids: Sequence[str]) -> Found:
        found: Found = []
        timeout_s = self._link.settings.publish_timeout_s
        for start in range(0, len(request_ids), _ASKED_AT_ONCE):
            some = request_ids[start : start + _ASKED_AT_ONCE]
            query = {"multi_last": [self._link.subject(stage.job_of(one)) for one in some]}
            with available("the queue could not be read"):
                found += await direct_get(self._link, self._stream(stage), query, timeout_s)
        return found

    async def jobs(self) -> list[tuple[str, str, str]]:
        """Queue, model and request of every job that is not acknowledged; raises BusUnavailable."""
        prefix = self._link.subject("job.")
        found = []
        for stage in STAGES.values():
            stream, every = self._stream(stage), self._link.subject(stage.all_jobs)
            with available("the queue could not be listed"):
                info = await self._link.jetstream.stream_info(stream, subjects_filter=every)
            found += [name.removeprefix(prefix).split(".") for name in info.state.subjects or {}]
        return [(parts[0], parts[1], parts[2]) for parts in found if len(parts) == 3]

    async def backlog(self, stage: Stage, model: str) -> Backlog:
        """Raises BusUnavailable."""
        durable = self._link.name(stage.durable(model))
        with available("the broker does not say how long the queue is"):
            info = await self._link.jetstream.consumer_info(self._stream(stage), durable)
        given, deliveries = 0, 0
        if info.delivered is not None:
            given, deliveries = info.delivered.stream_seq, info.delivered.consumer_seq
        return Backlog(info.num_pending or 0, given, deliveries, info.num_waiting or 0)

    async def withdraw(self, stage: Stage, model: str, request_id: str) -> int:
        """Take back a job that no worker was given; returns how many waited, 0 if it did not.

        Raises BusUnavailable.
        """
        job = await self.find(stage, request_id)
        backlog = await self.backlog(stage, model)
        if job is None or job.sequence <= backlog.given:
            return 0
        with available("the job could not be taken back"):
            try:
                await self._link.jetstream.delete_msg(self._stream(stage), job.sequence)
            except nats.js.errors.NotFoundError:
                return 0
        return backlog.waiting

    async def waiting(self, stage: Stage, model: str) -> int:
        """Jobs not yet given to a worker; raises BusUnavailable."""
        return (await self.backlog(stage, model)).waiting

    async def hand_on(self, receipt: str, timeout_s: float) -> None:
        """Have a job given to another worker on behalf of its holder; raises BusUnavailable."""
        await self._link.ask(receipt, NAK, timeout_s)

    async def _submit(
        self, stage: Stage, request: SpeechRequest, *, expected: int, attempt: str = ""
    ) -> bool:
        """False if the request's last job is another than `expected`.

        attempt: what tells it from an earlier job of the request that is done.
        """
        if stage is not TALKER:
            request = request.without_text()
        headers = {
            "Nats-Msg-Id": f"{stage.queue}.{request.request_id}.{attempt or expected}",
            EXPECTED: str(expected),
        }
        with tracing.sending(stage, request, headers):
            return await self._send(stage, request, headers)

    async def _send(self, stage: Stage, request: SpeechRequest, headers: dict[str, str]) -> bool:
        subject = self._link.subject(stage.job(request.model, request.request_id))
        stream, data = self._stream(stage), encode(request)
        timeout_s, tuning = self._link.settings.publish_timeout_s, self._tuning
        deadline_s = time.monotonic() + tuning.submit_s
        pause_s = tuning.first_pause_s
        while True:
            try:
                publishing = append(self._link, stream, subject, data, headers, timeout_s)
                await self._or_reconnected(publishing)
                return True
            except nats.js.errors.APIError as error:
                if is_queue_full(error):
                    raise Overloaded("the job queue is full") from error
                if code_of(error) == WRONG_LAST_SEQUENCE:
                    return False
                log_.debug("submit.retry", request_id=request.request_id, error=reason(error))
            except Unreachable as error:
                log_.debug("submit.retry", request_id=request.request_id, error=reason(error))
            self._link.store.require()
            if time.monotonic() > deadline_s:
                raise BusUnavailable("the broker did not take the job in time")
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, tuning.longest_pause_s)

    def _stream(self, stage: Stage) -> str:
        return self._link.name(stage.stream)

    async def _or_reconnected(self, request: Coroutine[Any, Any, object]) -> None:
        """Wait for `request`, or raise StaleConnectionError at the next reconnection.

        A broker that died will not answer, and a listener waits for a first sound.
        """
        with self._link.reconnections() as reconnected:
            asking, lost = asyncio.create_task(request), asyncio.create_task(reconnected.wait())
            try:
                await asyncio.wait({asking, lost}, return_when=asyncio.FIRST_COMPLETED)
                if not asking.done():
                    raise nats.errors.StaleConnectionError
                asking.result()
            finally:
                await stop(asking, lost)


def _job(headers: dict[str, str], data: bytes) -> QueuedJob | None:
    try:
        request = decode(data)
    except MalformedMessage:
        return None
    if not isinstance(request, SpeechRequest):
        return None
    return QueuedJob(int(headers["Nats-Sequence"]), request, tracing.only_trace(headers))
