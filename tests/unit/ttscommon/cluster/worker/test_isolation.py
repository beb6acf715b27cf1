"""Requests that crash their workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np

from tests.unit.ttscommon.cluster.worker.scene import (
    Connect,
    Seen,
    claim,
    ended,
    hand,
    lease_of,
    leased,
    none_queued,
    request,
    until,
    working,
)
from ttscommon.bus import Bus
from ttscommon.cluster.handover import TAKEN, HandOver
from ttscommon.cluster.leases import Lease
from ttscommon.cluster.worker import Job, Worker
from ttscommon.wire.epochs import handed_over
from ttscommon.wire.messages import AudioChunk, Position, Tensor
from ttscommon.wire.subjects import LEASES, TALKER, VOCODER


async def died_with(bus: Bus, name: str, deaths: int, bounces: int = 0) -> HandOver:
    """Queue a job that `deaths` workers died of: it waits, and can be handed over as well."""
    await bus.submit(VOCODER, request(name))
    delivery = await claim(bus)
    epoch = delivery.epoch(request(name))
    lease = Lease("", "vocoder", name, epoch, delivery.receipt, deaths, bounces)
    await bus.kv.put(LEASES, lease.key, lease.encode())
    return HandOver(
        request(name).again_now(),
        handed_over(epoch),
        delivery.receipt,
        delivery.sequence,
        deaths,
        bounces,
    )


async def test_a_request_that_killed_three_workers_ends_without_touching_the_engine(
    connect: Connect,
) -> None:
    bus = await connect()
    offer = await died_with(bus, "r", deaths=3)
    await bus.queue.hand_on(offer.receipt, 5.0)
    seen = Seen()
    async with working(bus, seen):
        end = await ended(bus, "r")
        assert (end.outcome, end.code) == ("error", "poison")
        assert seen.jobs.empty()
        await until(lambda: none_queued(bus))
        await until(lambda: leased(bus, "r", False))


async def test_the_end_of_a_poison_reaches_the_listener_through_the_next_stage(
    connect: Connect,
) -> None:
    bus = await connect()
    offer = await died_with(bus, "r", deaths=3)
    await bus.queue.hand_on(offer.receipt, 5.0)
    async with working(bus, Seen(), feeds=TALKER):
        await ended(bus, "r")
        assert await bus.queue.find(TALKER, "r") is not None


async def test_a_request_that_killed_two_workers_runs_alone(connect: Connect) -> None:
    bus, client = await connect(), await connect()
    offer = await died_with(client, "suspect", deaths=2)
    await client.queue.hand_on(offer.receipt, 5.0)
    seen = Seen()
    async with working(bus, seen, slots=4) as worker:
        assert (await seen.next()).request_id == "suspect"
        assert worker.free == 0
        await client.submit(VOCODER, request("other"))
        assert seen.jobs.empty()
        seen.finish.set()
        assert (await seen.next()).request_id == "other"


async def test_a_suspect_that_makes_progress_is_alone_no_longer(connect: Connect) -> None:
    bus, client = await connect(), await connect()
    offer = await died_with(client, "suspect", deaths=2)
    going_on = asyncio.Event()

    async def speak(job: Job) -> None:
        if job.request_id == "suspect":
            writer = await bus.audio_writer(job.request_id, job.epoch)
            await writer.begin(Position(job.request_id, 0))
            pcm = Tensor.of(np.zeros(10, np.int16))
            await writer.put(AudioChunk(job.request_id, 0, 16_000, pcm))
            await going_on.wait()
            await writer.release()

    seen = Seen(speak)
    async with working(bus, seen, slots=4):
        assert await hand(client, bus, offer) == TAKEN
        assert (await seen.next()).request_id == "suspect"
        await client.submit(VOCODER, request("other"))
        assert (await seen.next()).request_id == "other"
        going_on.set()


async def test_a_busy_worker_gives_a_suspect_to_another_and_knows_what_it_knew(
    connect: Connect,
) -> None:
    busy, idle, client = await connect(), await connect(), await connect()
    offer = await died_with(client, "suspect", deaths=2)
    working_on, empty = Seen(), Seen()
    async with working(busy, working_on, slots=2):
        await client.submit(VOCODER, request("other"))
        await working_on.next()
        assert await hand(client, busy, offer) == TAKEN

        async def bounced() -> bool:
            lease = await lease_of(client, "suspect")
            return lease is not None and lease.bounces > 0

        await until(bounced)
        async with working(idle, empty, slots=2):
            assert (await empty.next()).request_id == "suspect"
            lease = await lease_of(client, "suspect")
            assert lease is not None
            assert lease.deaths == 2
            working_on.finish.set()
            empty.finish.set()


@asynccontextmanager
async def waiting_for_an_empty_worker(bus: Bus, client: Bus, seen: Seen) -> AsyncIterator[Worker]:
    """A worker with another stream, and a suspect that no idle worker took."""
    offer = await died_with(client, "suspect", deaths=2, bounces=8)
    async with working(bus, seen, slots=4) as worker:
        await client.submit(VOCODER, request("other"))
        await seen.next()
        assert await hand(client, bus, offer) == TAKEN

        async def waiting() -> bool:
            lease = await lease_of(client, "suspect")
            return lease is not None and lease.waiting

        await until(waiting)  # a death of this worker is not the suspect's now
        yield worker


async def test_a_suspect_that_finds_no_idle_worker_waits_for_one_to_become_empty(
    connect: Connect,
) -> None:
    bus, client, seen = await connect(), await connect(), Seen()
    async with waiting_for_an_empty_worker(bus, client, seen) as worker:
        assert worker.free == 0
        assert seen.jobs.empty()
        seen.finish.set()
        assert (await seen.next()).request_id == "suspect"


async def test_a_suspect_that_is_cancelled_while_it_waits_ends(connect: Connect) -> None:
    bus, client, seen = await connect(), await connect(), Seen()
    async with waiting_for_an_empty_worker(bus, client, seen):
        await client.cancel("suspect", "gone")
        assert (await ended(client, "suspect")).outcome == "cancelled"
        assert seen.jobs.empty()
        seen.finish.set()
