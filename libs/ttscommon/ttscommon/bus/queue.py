"""The job queue: submit, claim one job at a time, say how a claimed one goes."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

import nats.errors
import nats.js.errors
import structlog
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from ttscommon import subjects, tracing
from ttscommon.bus.faults import QUEUE_FULL, Unreachable, code_of, reason
from ttscommon.bus.link import Link
from ttscommon.errors import BusUnavailable, MalformedMessage, Overloaded
from ttscommon.messages import SpeechRequest, decode, encode
from ttscommon.subjects import Stage
from ttscommon.tasks import stop

EPOCHS_BEFORE: Final = "Antiphon-Epochs-Before"
EPOCHS_PER_ATTEMPT: Final = 100
_NAK: Final = b"-NAK"

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class QueueTuning:
    """Seconds. `submit_s`: three brokers that lost a leader are without one for four to nine.
    `first_pause_s`, `longest_pause_s`: between two attempts. `pull_s`: shorter than the reaper
    takes to give a silent worker up, or a stopped worker would pull what was handed on from it.
    `late_s`: how long a pull that ends is listened to for a job that was under way.
    """

    submit_s: float = 10.0
    first_pause_s: float = 0.05
    longest_pause_s: float = 0.25
    pull_s: float = 2.0
    late_s: float = 0.05
    retry_s: float = 0.1


class Delivery:
    """A job as the broker gave it to this worker.

    `receipt` is where the broker takes word of it, also from others. `epoch` counts how often the
    job was given to a worker, in all of its attempts.
    """

    def __init__(self, message: Msg) -> None:
        self._message = message

    @property
    def data(self) -> bytes:
        return bytes(self._message.data)

    @property
    def receipt(self) -> str:
        return str(self._message.reply)

    @property
    def headers(self) -> dict[str, str]:
        """What the job came with besides its data; its trace among it."""
        return dict(self._message.headers or {})

    @property
    def deliveries(self) -> int:
        """How often this very message was given to a worker."""
        return int(self._message.metadata.num_delivered)

    @property
    def epoch(self) -> int:
        before = (self._message.headers or {}).get(EPOCHS_BEFORE, "")
        return self.deliveries + (int(before) if before.isdigit() else 0)

    async def acknowledge(self, timeout_s: float) -> bool:
        """The job is done; False if the broker did not confirm it."""
        try:
            await self._message.ack_sync(timeout=timeout_s)
        except nats.errors.MsgAlreadyAckdError:
            return True
        except Unreachable:
            return False
        return True

    async def hand_on(self, delay_s: float = 0.0) -> None:
        """Have it given to another worker, `delay_s` from now at the earliest."""
        await _tell(lambda: self._message.nak(delay=delay_s or None))

    async def renew(self) -> None:
        """It is still worked on."""
        await _tell(self._message.in_progress)

    async def discard(self) -> None:
        """Nobody can ever do it."""
        await _tell(self._message.term)


class JobQueue:
    """The queues of both stages."""

    def __init__(self, link: Link, tuning: QueueTuning = QueueTuning()) -> None:
        self._link = link
        self._tuning = tuning

    async def submit(self, stage: Stage, request: SpeechRequest, *, attempt: int = 0) -> None:
        """Queue a job, once for each `attempt` however often it is called.

        A later attempt is for a job that was given to a worker and is worked on by nobody; its
        epochs are higher than any of the attempts before, so it takes over what they left.

        Raises Overloaded when the queue is full, BusUnavailable when the broker stays silent.
        """
        headers = {"Nats-Msg-Id": f"{stage.queue}.{request.request_id}"}
        if attempt:
            headers["Nats-Msg-Id"] += f".{attempt}"
            headers[EPOCHS_BEFORE] = str(attempt * EPOCHS_PER_ATTEMPT)
        with tracing.sending(stage, request, headers):
            await self._submit(stage, request, headers)

    async def _submit(self, stage: Stage, request: SpeechRequest, headers: dict[str, str]) -> None:
        subject, data = stage.job(request.model, request.request_id), encode(request)
        tuning = self._tuning
        deadline_s = time.monotonic() + tuning.submit_s
        pause_s = tuning.first_pause_s
        while True:
            try:
                await self._or_reconnected(self._publish(subject, data, headers))
                return
            except nats.js.errors.APIError as error:
                if code_of(error) == QUEUE_FULL:
                    raise Overloaded("the job queue is full") from error
            except Unreachable as error:
                log_.debug("submit.retry", request_id=request.request_id, error=reason(error))
            if time.monotonic() > deadline_s:
                raise BusUnavailable("the broker did not take the job in time")
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, tuning.longest_pause_s)

    async def submitted(self, stage: Stage, request_id: str) -> tuple[SpeechRequest, int] | None:
        """The request's job and its latest attempt, until a worker has acknowledged it.

        Raises BusUnavailable.
        """
        try:
            raw = await self._link.jetstream.get_last_msg(subjects.JOBS, stage.job_of(request_id))
            request = decode(raw.data or b"")
        except (nats.js.errors.NotFoundError, MalformedMessage):
            return None
        except Unreachable as error:
            raise BusUnavailable("the queue could not be read") from error
        if not isinstance(request, SpeechRequest):
            return None
        return request, int((raw.headers or {}).get(EPOCHS_BEFORE, "0")) // EPOCHS_PER_ATTEMPT

    async def waiting(self, stage: Stage, model: str) -> int:
        """Jobs not yet given to anybody; raises BusUnavailable."""
        durable = stage.durable(model)
        try:
            info = await self._link.jetstream.consumer_info(subjects.JOBS, durable)
        except Unreachable as error:
            raise BusUnavailable("the broker does not say how long the queue is") from error
        return info.num_pending or 0

    async def hand_on(self, receipt: str, timeout_s: float) -> None:
        """Have a job given to another worker on behalf of its holder; raises BusUnavailable."""
        await self._link.request(receipt, _NAK, timeout_s)

    def feed(self, stage: Stage, model: str) -> JobFeed:
        """The pull side, for one worker."""
        return JobFeed(self._link, stage, model, self._tuning)

    async def _publish(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        await self._link.jetstream.publish(
            subject,
            data,
            timeout=self._link.settings.publish_timeout_s,
            stream=subjects.JOBS,
            headers=headers,
        )

    async def _or_reconnected(self, request: Coroutine[Any, Any, object]) -> None:
        """Wait for `request`, or raise StaleConnectionError at the next reconnection.

        A broker that died will not answer, and a listener waits for a first sound.
        """
        reconnected = asyncio.Event()

        async def hook() -> None:
            reconnected.set()

        asking = asyncio.create_task(request)
        lost = asyncio.create_task(reconnected.wait())
        self._link.on_reconnect(hook)
        try:
            await asyncio.wait({asking, lost}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise nats.errors.StaleConnectionError
            asking.result()
        finally:
            self._link.off_reconnect(hook)
            await stop(asking, lost)


class JobFeed:
    """The pull side of a stage's shared consumer, one job at a time."""

    def __init__(
        self, link: Link, stage: Stage, model: str, tuning: QueueTuning = QueueTuning()
    ) -> None:
        self._link = link
        self._durable = stage.durable(model)
        self._tuning = tuning
        self._reconnected = asyncio.Event()
        self._pull: JetStreamContext.PullSubscription | None = None
        link.on_reconnect(self._on_reconnect)

    async def next(self) -> Delivery:
        """The next job. A pull that the broker forgot in a restart is asked again."""
        while True:
            try:
                if self._pull is None:
                    self._pull = await self._link.jetstream.pull_subscribe_bind(
                        durable=self._durable, stream=subjects.JOBS
                    )
                message = await self._fetch(self._pull)
                if message is not None:
                    return Delivery(message)
            except Unreachable as error:
                log_.info("jobs.retry", durable=self._durable, error=reason(error))
                await asyncio.sleep(self._tuning.retry_s)

    async def close(self) -> None:
        """Stop pulling; what arrived too late goes back at once."""
        self._link.off_reconnect(self._on_reconnect)
        if self._pull is None:
            return
        try:
            late = await self._pull.fetch(16, timeout=self._tuning.late_s)
        except Unreachable:
            late = []
        for message in late:
            await Delivery(message).hand_on()
        await self._link.unsubscribe(self._pull)

    async def _fetch(self, pull: JetStreamContext.PullSubscription) -> Msg | None:
        self._reconnected.clear()
        fetch = asyncio.create_task(pull.fetch(1, timeout=self._tuning.pull_s))
        reconnected = asyncio.create_task(self._reconnected.wait())
        taken = False
        try:
            await asyncio.wait({fetch, reconnected}, return_when=asyncio.FIRST_COMPLETED)
            taken = fetch.done()
            return fetch.result()[0] if taken else None
        except (TimeoutError, nats.errors.TimeoutError):
            return None
        finally:
            await stop(fetch, reconnected)
            # One that came in the moment of a cancellation would be nobody's until ack_wait.
            if not (taken or fetch.cancelled() or fetch.exception()):
                for message in fetch.result():
                    await Delivery(message).hand_on()

    async def _on_reconnect(self) -> None:
        self._reconnected.set()


async def _tell(action: Callable[[], Awaitable[None]]) -> None:
    """Tell the broker about a job; if it cannot hear now, ack_wait tells it later."""
    try:
        await action()
    except (nats.errors.Error, OSError) as error:
        log_.debug("job.untold", error=reason(error))
