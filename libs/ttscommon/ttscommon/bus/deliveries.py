"""The pull side of a job queue: one job at a time, and what is said to the broker about it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from ttscommon.bus.faults import Unreachable, reason
from ttscommon.bus.layout import WORKERS
from ttscommon.bus.link import Link
from ttscommon.process.tasks import stop
from ttscommon.wire.epochs import epoch_of
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.subjects import Stage, job_named

Restore = Callable[[], Coroutine[Any, Any, None]]

NAK: Final = b"-NAK"
_ACK: Final = b"+ACK"
_IN_PROGRESS: Final = b"+WPI"
_TERM: Final = b"+TERM"
_NO_QUEUE: Final = "503"
_LAST_PRIORITY: Final = 9

log_ = structlog.get_logger(__name__)


@dataclass(frozen=True)
class FeedTuning:
    """Pulling jobs from a queue."""

    pull_s: float = 2.0
    """How long one pull waits for a job: less than the reaper takes to give a silent worker up,
    because a stopped worker would pull what was handed on from it.
    """
    grace_s: float = 0.5
    """How much later than that the broker may say that there was nothing."""
    retry_s: float = 0.1
    """Pause after the broker said that it has no queue now."""
    restore_s: float = 0.5
    """How often the queue's consumer is looked for meanwhile."""
    withdraw_s: float = 1.0
    """How long taking a pull back may take."""


@dataclass(eq=False)
class Delivery:
    """A job as it was given to this worker, by the broker or handed over by the reaper.

    `receipt` is where the broker takes word of it. `sequence` is the message's own, `deliveries`
    how often it was given to a worker; `headers` name its trace. `named`: the model and request
    that its subject names, whatever is in it; empty where it was handed over.

    Where the queue was lost since, nothing is said of it: in the queue that took its place the
    receipt is another job's, which an acknowledgement would remove.
    """

    link: Link
    receipt: str
    data: bytes
    sequence: int = 0
    deliveries: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    named: tuple[str, str] = ("", "")
    _given_s: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, link: Link, message: Msg) -> Delivery:
        meta = message.metadata
        return cls(
            link,
            message.reply,
            bytes(message.data),
            meta.sequence.stream,
            meta.num_delivered,
            dict(message.headers or {}),
            job_named(message.subject),
        )

    def epoch(self, request: SpeechRequest) -> int:
        return epoch_of(self.sequence, self.deliveries, again=request.again)

    @property
    def _lost(self) -> bool:
        """The queue that gave it is gone."""
        return self.link.store.queues_lost_s > self._given_s

    async def acknowledge(self, timeout_s: float) -> bool:
        """The job is done; False if the broker did not confirm it."""
        if self._lost:
            return True
        try:
            await self.link.ask(self.receipt, _ACK, timeout_s)
        except BusUnavailable:
            return False
        return True

    async def hand_on(self, delay_s: float = 0.0) -> None:
        """Have it given to another worker, `delay_s` from now at the earliest."""
        word = NAK
        if delay_s:
            word += b" " + json.dumps({"delay": round(delay_s * 1e9)}).encode()
        await self._say(word)

    async def renew(self) -> None:
        """It is still worked on."""
        await self._say(_IN_PROGRESS)

    async def discard(self) -> None:
        """No worker can ever do it."""
        await self._say(_TERM)

    async def _say(self, word: bytes) -> None:
        if not self._lost:
            await self.link.reply(self.receipt, word)


def pull_priority(load: float) -> int:
    """The broker's number for a worker of this load (0 .. 1): 0 is served first, 9 last."""
    return min(_LAST_PRIORITY, int(load * (_LAST_PRIORITY + 1)))


class JobFeed:
    """Pulls one job at a time from the consumer that a stage's workers share for a model.

    Of the pulls that wait at the broker the one with the lowest number is served first.

    A pull that is not waited for any more is taken back at the broker, and what it brought in that
    moment goes back to the queue: a job that no worker holds would wait for `ack_wait`.
    """

    def __init__(
        self,
        link: Link,
        stage: Stage,
        model: str,
        load: Callable[[], float] = lambda: 0.0,
        restore: Restore | None = None,
    ) -> None:
        """`load`: the share of this worker's slots that is taken. `restore`: makes the consumer
        again, if it is missing.
        """
        self._link = link
        self._tuning = FeedTuning()
        self._load = load
        self._restore = restore
        self._restored_s = float("-inf")
        self._restoring: asyncio.Task[None] | None = None
        durable = link.name(stage.durable(model))
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{link.name(stage.stream)}.{durable}"
        self._subscription: Subscription | None = None
        self._inbox = ""
        self._waiting: asyncio.Future[Delivery | None] | None = None
        self._withdrawals: set[asyncio.Task[None]] = set()
        link.on_reconnect(self._on_reconnect)

    async def next(self) -> Delivery:
        """The next job. A pull that the broker forgot in a restart is asked again."""
        try:
            while True:
                delivery = await self._pull()
                if delivery is not None:
                    return delivery
        except asyncio.CancelledError:
            self._withdraw()
            raise

    async def close(self) -> None:
        self._link.off_reconnect(self._on_reconnect)
        self._withdraw()
        if self._restoring is not None:
            await stop(self._restoring)
        await asyncio.gather(*self._withdrawals)

    async def _pull(self) -> Delivery | None:
        """One pull; None if it brought nothing."""
        waiting: asyncio.Future[Delivery | None] = asyncio.get_running_loop().create_future()
        self._waiting = waiting
        try:
            await self._ask()
            async with asyncio.timeout(self._tuning.pull_s + self._tuning.grace_s):
                return await waiting
        except TimeoutError:
            return None
        except asyncio.CancelledError:
            # A job that came in this very moment is held by no worker.
            if waiting.done() and not waiting.cancelled() and (late := waiting.result()):
                await late.hand_on()
            raise
        except Unreachable as error:
            log_.info("jobs.retry", error=reason(error))
            await asyncio.sleep(self._tuning.retry_s)
            return None
        finally:
            self._waiting = None

    async def _ask(self) -> None:
        client = self._link.client
        if self._subscription is None:
            self._inbox = client.new_inbox()
            self._subscription = await client.subscribe(self._inbox, cb=self._on_message)
        wanted = {
            "batch": 1,
            "expires": round(self._tuning.pull_s * 1e9),
            "group": WORKERS,
            "priority": pull_priority(self._load()),
        }
        await client.publish(self._subject, json.dumps(wanted).encode(), reply=self._inbox)

    async def _on_message(self, message: Msg) -> None:
        if message.reply.startswith("$JS.ACK."):
            delivery = Delivery.of(self._link, message)
            if not self._tell(delivery):
                await delivery.hand_on()
            return
        # A status: nothing came in time, or there is no queue now.
        if (message.headers or {}).get("Status") == _NO_QUEUE:
            self._look_for_queue()
            await asyncio.sleep(self._tuning.retry_s)
        self._tell(None)

    def _look_for_queue(self) -> None:
        """Beside the pulls: without a leader it takes its time, and there may be one again soon."""
        due = time.monotonic() - self._restored_s >= self._tuning.restore_s
        busy = self._restoring is not None and not self._restoring.done()
        if self._restore is not None and due and not busy:
            self._restored_s = time.monotonic()
            self._restoring = asyncio.ensure_future(self._restore())

    def _tell(self, delivery: Delivery | None) -> bool:
        """Give it to the waiting caller, if there is one."""
        if self._waiting is None or self._waiting.done():
            return False
        self._waiting.set_result(delivery)
        return True

    async def _on_reconnect(self) -> None:
        self._tell(None)

    def _withdraw(self) -> None:
        """Have the broker forget what was asked for; what it sent meanwhile goes back."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            task = asyncio.create_task(self._drain(subscription))
            self._withdrawals.add(task)
            task.add_done_callback(self._withdrawals.discard)

    async def _drain(self, subscription: Subscription) -> None:
        try:
            async with asyncio.timeout(self._tuning.withdraw_s):
                await subscription.drain()  # type: ignore[no-untyped-call]
        except Unreachable as error:
            log_.debug("pull.undrained", error=reason(error))
