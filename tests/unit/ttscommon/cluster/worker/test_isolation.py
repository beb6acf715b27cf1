"""Requests that crash their workers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from tests.connections import Connect
from tests.unit.ttscommon.cluster.scene import (
    Seen,
    claim,
    ended,
    hand,
    lease_of,
    request,
    unleased,
    work,
    working,
)
from tests.waits import until
from ttscommon.bus import Bus
from ttscommon.cluster.leases import Lease
from ttscommon.cluster.worker import IsolationTuning, Job, WorkerTuning
from ttscommon.wire.epochs import TAKEN, HandOver, handed_over
from ttscommon.wire.messages import AudioChunk, Position, Tensor
from ttscommon.wire.subjects import LEASES, TALKER, VOCODER


async def died_with(bus: Bus, name: str, deaths: int, bounces: int = 0) -> HandOver:
    """Queue a job that `deaths` workers died of: it waits, and can be handed over as well."""
    await bus.submit(VOCODER, request(name))
    delivery = await claim(bus)
    epoch, figures = delivery.epoch(request(name)), (deaths, bounces)
    lease = Lease("", "vocoder", name, epoch, delivery.receipt, *figures)
    await bus.kv.put(LEASES, lease.key, lease.encode())
    told = (handed_over(epoch), delivery.receipt, delivery.sequence)
    return HandOver(request(name).again_now(), *told, *figures)


async def test_a_request_that_killed_three_workers_ends_without_the_engine(bus: Bus) -> None:
    """Its end reaches the listener through the next stage, which is given a job."""
    offer = await died_with(bus, "r", deaths=3)
    await bus.queue.hand_on(offer.receipt, 5.0)
    seen = Seen()
    async with working(bus, seen, feeds=TALKER):
        end = await ended(bus)
        assert (end.outcome, end.code) == ("error", "poison")
        assert seen.jobs.empty()
        await until(lambda: unleased(bus))
        assert await bus.queue.jobs() == [("talk", "m", "r")]


@pytest.mark.parametrize(
    ("deaths", "shared", "silences", "ends"),
    [
        (2, 1, 0, True),
        (1, 3, 0, False),
        (2, 0, 0, False),
        (0, 5, 0, False),
        (0, 6, 0, True),
        (2, 0, 1, False),
        (2, 0, 5, False),
        (0, 1, 5, True),
    ],
)
def test_deaths_that_were_shared_and_mere_silence_convict_no_request_by_themselves(
    deaths: int, shared: int, silences: int, ends: bool
) -> None:
    lease = Lease("", "vocoder", "r", 1, "", deaths, shared=shared, silences=silences)
    assert IsolationTuning().convicts(lease) == ends


@asynccontextmanager
async def two_suspects(
    bus: Bus, client: Bus, seen: Seen, tuning: IsolationTuning
) -> AsyncIterator[None]:
    """The first is tried, the second waits for its turn, or does not any more."""
    offers = [await died_with(client, name, deaths=2, bounces=2) for name in ("first", "second")]
    async with working(bus, seen, slots=4, tuning=WorkerTuning(isolation=tuning)):
        assert await hand(client, bus, offers[0]) == TAKEN
        assert (await seen.next()).request_id == "first"
        assert await hand(client, bus, offers[1]) == TAKEN
        yield


async def rests(client: Bus, name: str) -> bool:
    lease = await lease_of(client, name)
    return lease is not None and lease.waiting


async def test_suspects_are_tried_one_after_another(bus: Bus, other: Bus) -> None:
    seen = Seen()
    async with two_suspects(bus, other, seen, IsolationTuning(trial_s=60.0, turn_s=60.0)):
        await until(lambda: rests(other, "second"))  # a death of this worker is not the second's
        await work(other, seen, "other")
        assert seen.jobs.empty()
        seen.finish.set()
        assert (await seen.next()).request_id == "second"


@pytest.mark.parametrize(
    "tuning", [IsolationTuning(trial_s=0.1, turn_s=60.0), IsolationTuning(trial_s=60.0, turn_s=0.1)]
)
async def test_a_suspect_waits_for_another_only_for_a_while(
    bus: Bus, other: Bus, tuning: IsolationTuning
) -> None:
    seen = Seen()
    async with two_suspects(bus, other, seen, tuning):
        assert (await seen.next()).request_id == "second"


async def test_a_suspect_that_makes_progress_lets_the_next_begin(bus: Bus, other: Bus) -> None:
    going_on = asyncio.Event()

    async def speak(job: Job) -> None:
        writer = await bus.audio_writer(job.request_id, job.epoch)
        await writer.begin(Position(job.request_id, 0))
        pcm = Tensor.of(np.zeros(10, np.int16))
        await writer.put(AudioChunk(job.request_id, 0, 16_000, pcm))
        await going_on.wait()
        await writer.release()

    seen = Seen(speak)
    async with two_suspects(bus, other, seen, IsolationTuning(trial_s=60.0, turn_s=60.0)):
        assert (await seen.next()).request_id == "second"
        going_on.set()


async def test_a_suspect_that_is_cancelled_while_it_waits_ends(bus: Bus, other: Bus) -> None:
    seen = Seen()
    async with two_suspects(bus, other, seen, IsolationTuning(trial_s=60.0, turn_s=60.0)):
        await until(lambda: rests(other, "second"))
        await other.cancel("second", "gone")
        assert (await ended(other, "second")).outcome == "cancelled"
        assert seen.jobs.empty()


async def test_a_death_while_nothing_is_computed_is_not_the_jobs(bus: Bus, other: Bus) -> None:
    codes, computing = asyncio.Event(), asyncio.Event()

    async def speak(job: Job) -> None:
        await job.resting(codes.wait())
        computing.set()
        await seen.finish.wait()

    seen = Seen(speak)
    offer = await died_with(other, "r", deaths=1)
    async with working(bus, seen):
        assert await hand(other, bus, offer) == TAKEN
        await until(lambda: rests(other, "r"))
        codes.set()
        await computing.wait()
        assert not await rests(other, "r")


async def test_a_busy_worker_gives_a_suspect_to_another_that_knows_of_it(connect: Connect) -> None:
    busy, idle, client = await connect(), await connect(), await connect()
    offer = await died_with(client, "suspect", deaths=2)
    working_on, empty = Seen(), Seen()
    async with working(busy, working_on, slots=2):
        await work(client, working_on, "other")
        assert await hand(client, busy, offer) == TAKEN

        async def bounced() -> bool:
            return (await lease_of(client, "suspect")).bounces > 0

        await until(bounced)
        async with working(idle, empty, slots=2):
            assert (await empty.next()).request_id == "suspect"
            assert (await lease_of(client, "suspect")).deaths == 2
