"""The job queue: one job a request, whatever happens to its submission, its holder, a pull."""

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from tests.connections import Connect
from tests.waits import until
from ttscommon.bus import Bus, Delivery, JobFeed
from ttscommon.bus.deliveries import pull_priority
from ttscommon.wire.epochs import is_first
from ttscommon.wire.errors import Overloaded
from ttscommon.wire.messages import SpeechRequest, decode
from ttscommon.wire.pieces import Mark, Pause
from ttscommon.wire.subjects import TALKER, VOCODER

REQUEST = SpeechRequest("r", "m", "v", "hello")


async def submit(bus: Bus, *names: str) -> None:
    for name in names:
        await bus.submit(TALKER, SpeechRequest(name, "m", "v", "hello"))


async def messages(bus: Bus) -> int:
    info = await bus.link.jetstream.stream_info(bus.link.name(TALKER.stream))
    return int(info.state.messages)


async def claim(bus: Bus) -> tuple[Delivery, int]:
    """Take the next job; returns it and its epoch."""
    feed = JobFeed(bus.link, TALKER, "m")
    async with asyncio.timeout(10):
        delivery = await feed.next()
    request = decode(delivery.data)
    assert isinstance(request, SpeechRequest)
    return delivery, delivery.epoch(request)


async def test_a_request_never_has_two_jobs_however_often_it_is_submitted(bus: Bus) -> None:
    config = (await bus.link.jetstream.stream_info(bus.link.name(TALKER.stream))).config
    config.duplicate_window = 0.1  # two minutes, as this test sees them
    await bus.link.jetstream.update_stream(config)
    for _ in range(2):
        await bus.submit(TALKER, REQUEST)
    await claim(bus)
    await asyncio.sleep(0.3)
    await bus.submit(TALKER, REQUEST)
    assert await messages(bus) == 1


async def test_every_worker_that_is_given_a_request_has_a_later_epoch(bus: Bus) -> None:
    await bus.submit(TALKER, REQUEST)
    first, epoch = await claim(bus)
    assert is_first(epoch)
    await first.hand_on()
    _, second = await claim(bus)
    job = await bus.queue.find(TALKER, "r")
    assert job is not None
    assert await bus.queue.requeue(TALKER, job)
    _, third = await claim(bus)
    assert epoch < second < third
    assert not is_first(second)
    assert not is_first(third)  # the first delivery of its message, and not of the request


async def test_a_job_is_requeued_once_and_replaces_the_old_one(bus: Bus) -> None:
    await bus.submit(TALKER, REQUEST)
    await claim(bus)
    job = await bus.queue.find(TALKER, "r")
    assert job is not None
    assert await bus.queue.requeue(TALKER, job)
    assert not await bus.queue.requeue(TALKER, job)  # as another gateway would
    assert await messages(bus) == 1


async def test_a_job_that_was_acknowledged_is_neither_found_nor_requeued(bus: Bus) -> None:
    await bus.submit(TALKER, REQUEST)
    delivery, _ = await claim(bus)
    job = await bus.queue.find(TALKER, "r")
    assert job is not None
    assert await delivery.acknowledge(5.0)
    assert await bus.queue.find(TALKER, "r") is None
    assert not await bus.queue.requeue(TALKER, job)
    assert await messages(bus) == 0


async def test_word_of_a_job_of_a_lost_queue_removes_none_of_the_new_queue(bus: Bus) -> None:
    """Both jobs are the first of their queue: their receipts are the same but for the time."""
    await bus.submit(TALKER, REQUEST)
    lost, _ = await claim(bus)
    await bus.link.jetstream.delete_stream(bus.link.name(TALKER.stream))
    bus.link.store.lost_queue(TALKER.stream)
    await bus.setup.create()
    await bus.setup.ensure_consumer(TALKER, "m")
    await submit(bus, "new")
    await claim(bus)
    assert await lost.acknowledge(5.0)
    await lost.discard()
    await bus.link.client.flush()
    assert await bus.queue.find(TALKER, "new") is not None


async def test_each_stage_has_a_queue_of_its_own_and_vocoders_are_told_no_text(bus: Bus) -> None:
    marked = SpeechRequest("r", "m", "v", "hello", marks=(Mark(1, Pause(1.0)),), seed=7)
    for stage in (TALKER, VOCODER):
        await bus.submit(stage, marked)
    talk, vocode = await bus.queue.find(TALKER, "r"), await bus.queue.find(VOCODER, "r")
    assert talk is not None
    assert vocode is not None
    assert talk.request == marked
    assert vocode.request == SpeechRequest("r", "m", "v", "", seed=7)
    assert sorted(await bus.queue.jobs()) == [("talk", "m", "r"), ("voc", "m", "r")]


async def test_only_a_job_that_no_worker_was_given_is_withdrawn(bus: Bus) -> None:
    await submit(bus, "a", "b", "c")
    await claim(bus)
    assert await bus.queue.withdraw(TALKER, "m", "a") == 0
    assert await bus.queue.withdraw(TALKER, "m", "b") == 2  # waited, itself included
    assert await bus.queue.withdraw(TALKER, "m", "b") == 0
    assert sorted(await bus.queue.jobs()) == [("talk", "m", name) for name in ("a", "c")]


async def test_a_full_queue_refuses_at_once(connect: Connect) -> None:
    small = await connect(prefix="small", slots=1)
    await submit(small, *"abcdef")  # one runs, one waits, four wait aside
    with pytest.raises(Overloaded):
        await submit(small, "g")
    await small.submit(VOCODER, SpeechRequest("g", "m", "v", "hello"))


# Pulls


async def first_of(bus: Bus, *loads: float) -> float:
    """Submit a job when workers of these loads have pulled, in this order; whose pull brings it."""
    feeds = {load: JobFeed(bus.link, TALKER, "m", partial(float, load)) for load in loads}
    tasks: dict[asyncio.Task[Delivery], float] = {}
    for count, (load, feed) in enumerate(feeds.items(), 1):
        tasks[asyncio.create_task(feed.next())] = load
        await pulled(bus, count)
    await bus.submit(TALKER, REQUEST)
    async with asyncio.timeout(10):
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    for feed in feeds.values():
        await feed.close()
    return tasks[done.pop()]


@pytest.mark.parametrize("loads", [(31 / 32, 0.5, 0.0, 0.7), (31 / 32,)])
async def test_the_least_loaded_of_the_workers_that_wait_is_given_the_next_job(
    bus: Bus, loads: tuple[float, ...]
) -> None:
    assert await first_of(bus, *loads) == min(loads)


def test_loads_become_the_brokers_ten_priorities() -> None:
    loads = (0.0, 1 / 32, 0.25, 0.5, 31 / 32, 1.0)
    assert [pull_priority(load) for load in loads] == [0, 0, 2, 5, 9, 9]


async def test_a_pull_that_is_not_waited_for_any_more_takes_no_job(bus: Bus) -> None:
    feed = JobFeed(bus.link, TALKER, "m")
    pulling = asyncio.create_task(feed.next())
    await pulled(bus, 1)
    pulling.cancel()
    await asyncio.wait({pulling})
    await pulled(bus, 0)
    await bus.submit(TALKER, REQUEST)
    _, epoch = await claim(bus)
    assert is_first(epoch)  # nobody was given it before
    await feed.close()


async def pulled(bus: Bus, pulls: int) -> None:
    """Wait until the broker knows of so many pulls."""
    jobs, durable = bus.link.name(TALKER.stream), bus.link.name(TALKER.durable("m"))

    async def known() -> bool:
        return (await bus.link.jetstream.consumer_info(jobs, durable)).num_waiting == pulls

    await until(known)


JOB: Any = SimpleNamespace(
    subject="antiphon.jobs.talk.m.r",
    reply="$JS.ACK.JOBS.talk.1.1.1.1.0",
    data=b"",
    headers=None,
    metadata=SimpleNamespace(sequence=SimpleNamespace(stream=1), num_delivered=1),
)


@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_a_job_that_comes_in_the_moment_of_stopping_goes_back(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, cancelled_first: bool
) -> None:
    monkeypatch.setattr(bus.link, "reply", said := AsyncMock())
    feed = JobFeed(bus.link, TALKER, "m")
    pulling = asyncio.create_task(feed.next())
    await pulled(bus, 1)
    if cancelled_first:
        pulling.cancel()
    await feed._on_message(JOB)
    pulling.cancel()
    await asyncio.wait({pulling})
    assert pulling.cancelled()
    await feed.close()
    said.assert_awaited_once_with(JOB.reply, b"-NAK")
