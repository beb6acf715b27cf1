"""The pull side of a stage's job queue, and what is said to the broker about a job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import nats.errors
import structlog
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from ttscommon import subjects
from ttscommon.bus import Bus
from ttscommon.bus.connection import EPOCHS_BEFORE
from ttscommon.bus.logstore import Unreachable
from ttscommon.messages import SpeechRequest
from ttscommon.subjects import Stage
from ttscommon.tasks import stop

# Shorter than the reaper takes to give a silent worker up: what it hands on must not be pulled by
# the very worker that is stopped.
_FETCH_S: Final = 2.0

log_ = structlog.get_logger(__name__)


class JobFeed:
    """The pull side of a stage's shared consumer, one job at a time."""

    def __init__(self, bus: Bus, stage: Stage, model: str) -> None:
        self._bus = bus
        self._durable = stage.durable(model)
        self._reconnected = asyncio.Event()
        self._pull: JetStreamContext.PullSubscription | None = None
        bus.on_reconnect(self._on_reconnect)

    async def next(self) -> Msg:
        """The next job. A pull that the broker forgot in a restart is asked again."""
        while True:
            try:
                if self._pull is None:
                    self._pull = await self._bus.jetstream.pull_subscribe_bind(
                        durable=self._durable, stream=subjects.JOBS
                    )
                message = await self._fetch(self._pull)
                if message is not None:
                    return message
            except Unreachable as error:
                log_.info("jobs.retry", durable=self._durable, error=str(error))
                await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Stop pulling; what arrived too late goes back at once."""
        self._bus.off_reconnect(self._on_reconnect)
        if self._pull is None:
            return
        try:
            late = await self._pull.fetch(16, timeout=0.05)
        except Unreachable:
            late = []
        for message in late:
            await tell(message.nak)
        await self._bus.unsubscribe(self._pull)

    async def _fetch(self, pull: JetStreamContext.PullSubscription) -> Msg | None:
        self._reconnected.clear()
        fetch = asyncio.create_task(pull.fetch(1, timeout=_FETCH_S))
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
                    await tell(message.nak)

    async def _on_reconnect(self) -> None:
        self._reconnected.set()


def epoch_of(message: Msg) -> int:
    """How often the job was given to a worker, in all of its attempts."""
    before = (message.headers or {}).get(EPOCHS_BEFORE, "")
    return message.metadata.num_delivered + (int(before) if before.isdigit() else 0)


def earliest_playback_s(request: SpeechRequest) -> float:
    """The earliest moment, by this process's monotonic clock, at which playback can have begun.

    What a successor goes by until a Playback tells it more: jobs taken over that seem to have no
    slack crowd out the streams that were there before, and are all served at the same time.
    """
    return time.monotonic() - max(0.0, time.time() - request.created_unix_s)


async def tell(action: Callable[[], Awaitable[None]]) -> None:
    """Tell the broker about a job; if it cannot hear now, ack_wait tells it later."""
    try:
        await action()
    except (nats.errors.Error, OSError) as error:
        log_.debug("job.untold", error=str(error) or type(error).__name__)
