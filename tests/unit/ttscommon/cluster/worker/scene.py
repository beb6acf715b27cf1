"""A worker over a real broker: jobs for it, and what is seen of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tests.waits import TIMEOUT_S
from ttscommon.bus import Bus, Delivery
from ttscommon.cluster.leases import JobLeases, Lease
from ttscommon.cluster.worker import Job, Worker, WorkerTuning
from ttscommon.process.metrics import Metrics
from ttscommon.process.tasks import stop
from ttscommon.wire import subjects
from ttscommon.wire.epochs import HandOver
from ttscommon.wire.messages import End, SpeechRequest
from ttscommon.wire.replicas import Replica
from ttscommon.wire.subjects import VOCODER, Stage

TUNING = WorkerTuning()

Handle = Callable[[Job], Awaitable[None]]


class Seen:
    """Jobs a worker got, as they come."""

    def __init__(self, handle: Handle | None = None) -> None:
        self.jobs: asyncio.Queue[Job] = asyncio.Queue()
        self.finish = asyncio.Event()
        self._handle = handle

    async def __call__(self, job: Job) -> None:
        self.jobs.put_nowait(job)
        if self._handle is not None:
            await self._handle(job)
        else:
            await self.finish.wait()

    async def next(self) -> Job:
        return await asyncio.wait_for(self.jobs.get(), TIMEOUT_S)


@asynccontextmanager
async def working(
    bus: Bus,
    handle: Handle,
    *,
    slots: int = 2,
    drain_s: float = 5.0,
    tuning: WorkerTuning = TUNING,
    feeds: Stage | None = None,
    stage: Stage = VOCODER,
) -> AsyncIterator[Worker]:
    def report() -> Replica:
        return Replica(bus.worker_id, stage.name, (), slots, worker.free)

    worker = Worker(bus, stage, ["m"], slots, handle, report, Metrics(), tuning, feeds)
    stopping = asyncio.Event()
    ready = asyncio.Event()
    task = asyncio.create_task(worker.run(stopping, drain_s, ready.set))
    await asyncio.wait_for(ready.wait(), TIMEOUT_S)
    try:
        yield worker
    finally:
        stopping.set()
        if bus.link.closed:  # it died
            await stop(task)
        else:
            await asyncio.wait_for(task, TIMEOUT_S)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not await condition():
            await asyncio.sleep(0.01)


async def queued_jobs(bus: Bus) -> int:
    """Jobs that are not acknowledged."""
    return len(await bus.queue.jobs())


async def lease_of(bus: Bus, request_id: str) -> Lease | None:
    """The newest of the request."""
    return (await JobLeases.read(bus, "vocoder", request_id)).newest


async def queue_raw(bus: Bus, stage: Stage, request_id: str, data: bytes) -> None:
    """Queue a message that no gateway of this version makes."""
    subject = bus.link.subject(stage.job("m", request_id))
    await bus.link.jetstream.publish(subject, data)


async def claim(bus: Bus) -> Delivery:
    """Take the next job as a worker does that dies before it writes its lease."""
    async with asyncio.timeout(TIMEOUT_S):
        return await bus.queue.feed(VOCODER, "m").next()


def request(name: str) -> SpeechRequest:
    return SpeechRequest(name, "m", "v", "hello")


async def holds(fact: bool) -> bool:
    return fact


async def none_queued(bus: Bus) -> bool:
    return await queued_jobs(bus) == 0


async def leased(bus: Bus, request_id: str, wanted: bool = True) -> bool:
    return (await lease_of(bus, request_id) is not None) == wanted


async def wait(event: asyncio.Event) -> None:
    await event.wait()


async def ended(bus: Bus, request_id: str) -> End:
    async with asyncio.timeout(TIMEOUT_S), bus.audio_reader(request_id) as reader:
        async for record in reader:
            if isinstance(record, End):
                return record
    raise AssertionError("no End")


def handover(epoch: int, name: str = "r") -> HandOver:
    return HandOver(request(name).again_now(), epoch, "$JS.ACK.nowhere", 1)


async def hand(client: Bus, worker: Bus, offer: HandOver) -> bytes:
    return await client.link.request(subjects.handover(worker.worker_id), offer.encode(), 5.0)
