"""Jobs that the reaper hands over directly."""

from __future__ import annotations

import pytest

from tests.unit.ttscommon.cluster.worker.scene import (
    Connect,
    Seen,
    hand,
    handover,
    leased,
    request,
    until,
    working,
)
from ttscommon.wire import subjects
from ttscommon.wire.epochs import epoch_of, handed_over
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.handover import FULL, TAKEN
from ttscommon.wire.subjects import VOCODER


async def test_a_job_that_is_handed_over_is_taken_even_from_under_a_pull(connect: Connect) -> None:
    bus, client = await connect(), await connect()
    seen = Seen()
    async with working(bus, seen, slots=1) as worker:
        first = epoch_of(1, 1)
        assert await hand(client, bus, handover(handed_over(first))) == TAKEN
        job = await seen.next()
        assert (job.request_id, job.epoch) == ("r", first + 1)
        assert worker.free == 0
        await until(lambda: leased(client, "r"))
        assert await hand(client, bus, handover(handed_over(epoch_of(2, 1)), "other")) == FULL
        await client.submit(VOCODER, request("waits"))
        seen.finish.set()
        assert (await seen.next()).request_id == "waits"  # it pulls again


async def test_a_worker_refuses_a_handover_of_what_it_has(connect: Connect) -> None:
    bus, client = await connect(), await connect()
    seen = Seen()
    async with working(bus, seen):
        await client.submit(VOCODER, request("r"))
        job = await seen.next()
        assert await hand(client, bus, handover(job.epoch)) == FULL
        seen.finish.set()


async def test_a_worker_says_which_jobs_it_holds(connect: Connect) -> None:
    bus, client = await connect(), await connect()
    seen = Seen()
    async with working(bus, seen):
        await client.submit(VOCODER, request("r"))
        await seen.next()
        subject = subjects.holders("vocoder")
        assert await client.link.request(subject, b"r", 5.0) == bus.worker_id.encode()
        with pytest.raises(BusUnavailable):
            await client.link.request(subject, b"another", 0.2)
        seen.finish.set()
