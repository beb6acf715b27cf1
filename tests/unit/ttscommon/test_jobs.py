"""The pull side of a queue at the moments when it is told to stop."""

from __future__ import annotations

import asyncio
from typing import Any

from ttscommon.jobs import JobFeed
from ttscommon.subjects import VOCODER


class Message:
    def __init__(self) -> None:
        self.given_back = asyncio.Event()

    async def nak(self) -> None:
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


class Bus:
    """A bus whose one subscription is `pull`."""

    def __init__(self, pull: Pull) -> None:
        self.jetstream = self
        self._pull = pull

    async def pull_subscribe_bind(self, **_: Any) -> Pull:
        return self._pull

    def on_reconnect(self, _: object) -> None: ...


async def test_a_job_that_comes_in_the_moment_of_stopping_goes_back() -> None:
    message = Message()
    pull = Pull(message)
    feed = JobFeed(Bus(pull), VOCODER, "m")  # type: ignore[arg-type]
    claiming = asyncio.create_task(feed.next())
    await pull.asked.wait()
    pull.ready.set()
    claiming.cancel()
    await asyncio.wait({claiming})
    assert claiming.cancelled()
    assert message.given_back.is_set()
