"""The broker loses its queues and has them again: requests whose jobs were in them do not wait."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.waits import until
from ttscommon.bus import StoreWatch
from ttscommon.process.tasks import stop
from ttscommon.wire.subjects import STAGES

BODY = {"input": "One two.", "response_format": "pcm"}
# Of the minute that a first sound may take.
MOST_S = 30.0


@pytest.fixture
async def watched(stand: Any) -> AsyncIterator[Any]:
    """A gateway that watches the broker's store."""
    link = stand.gateway.context.services.bus.link
    watching = asyncio.create_task(StoreWatch(link).run())
    await until(lambda: link.store._found_s.keys() >= queues(link))
    yield stand
    await stop(watching)


def queues(link: Any) -> set[str]:
    return {link.name(stage.stream) for stage in STAGES.values()}


async def say_nothing(performance: Any) -> None:
    """A worker that was given the job by a queue that is gone, and never begins."""
    await asyncio.Event().wait()


async def test_a_request_whose_job_was_lost_is_told_so_within_seconds(watched: Any) -> None:
    watched.stage.script = say_nothing
    bus = watched.stage.bus
    asking = asyncio.create_task(watched.http.post("/v1/audio/speech", json=BODY))
    await until(lambda: watched.stage.jobs)
    for queue in queues(bus.link):
        await bus.link.jetstream.delete_stream(queue)
    await bus.setup.create()
    async with asyncio.timeout(MOST_S):
        answer = await asking
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_lost")
    assert int(answer.headers["retry-after"]) >= 1
