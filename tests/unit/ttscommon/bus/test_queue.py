"""The job queue: submitted once, and given back at the moments when a pull is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ttscommon import subjects
from ttscommon.bus import Bus, JobFeed
from ttscommon.messages import SpeechRequest
from ttscommon.subjects import TALKER, VOCODER


@pytest.fixture
async def bus(broker: Any) -> AsyncIterator[Bus]:
    connected = await Bus.connect(broker.bus, "test")
    await connected.ensure()
    yield connected
    await connected.close()


async def test_a_job_is_queued_once_however_often_it_is_submitted(bus: Bus) -> None:
    await bus.ensure_consumer(TALKER, "m")
    request = SpeechRequest("r", "m", "v", "hello")
    for _ in range(3):
        await bus.submit(TALKER, request)
    info = await bus.link.jetstream.stream_info(subjects.JOBS)
    assert info.state.messages == 1


class Message:
    def __init__(self) -> None:
        self.given_back = asyncio.Event()

    async def nak(self, delay: float | None = None) -> None:
        self.given_back.set()


class Pull:
    """Brings `message` when `ready` is set."""

    def __init__(self, message: Message) -> None:
        self.asked, self.ready = asyncio.Event(), asyncio.Event()
        self._message = message

    async def fetch(self, batch: int, timeout: float) -> list[Message]:
        self.asked.set()
        await self.ready.wait()
        return [self._message]


class Link:
    """A link whose one subscription is `pull`."""

    def __init__(self, pull: Pull) -> None:
        self.jetstream = self
        self._pull = pull

    async def pull_subscribe_bind(self, **_: Any) -> Pull:
        return self._pull

    def on_reconnect(self, _: object) -> None: ...


async def test_a_job_that_comes_in_the_moment_of_stopping_goes_back() -> None:
    message = Message()
    pull = Pull(message)
    feed = JobFeed(Link(pull), VOCODER, "m")  # type: ignore[arg-type]
    claiming = asyncio.create_task(feed.next())
    await pull.asked.wait()
    pull.ready.set()
    claiming.cancel()
    await asyncio.wait({claiming})
    assert claiming.cancelled()
    assert message.given_back.is_set()
