"""Jobs and workers over a real broker: what has happened before a test looks, and what is seen."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.waits import TIMEOUT_S, until
from ttscommon.bus import Bus, Delivery, Incoming, JobFeed
from ttscommon.cluster.leases import JobLeases, Lease
from ttscommon.cluster.worker import Job, Worker, WorkerTuning
from ttscommon.process.metrics import Metrics
from ttscommon.process.service import LoopWatch
from ttscommon.process.tasks import stop
from ttscommon.wire import subjects
from ttscommon.wire.epochs import HandOver
from ttscommon.wire.messages import End, SpeechRequest
from ttscommon.wire.replicas import Model, Replica
from ttscommon.wire.subjects import LEASES, REPLICAS, TALKER, VOCODER, Stage

TUNING: Final = WorkerTuning()
REQUEST: Final = SpeechRequest("r", "m", "v", "hello")
DEAD: Final = "talker-dead"

Handle = Callable[[Job], Awaitable[object]]


class Seen:
    """Jobs a worker got, as they come."""

    def __init__(self, handle: Handle | None = None) -> None:
        self.jobs: asyncio.Queue[Job] = asyncio.Queue()
        self.finish = asyncio.Event()
        self._handle = handle or (lambda _: self.finish.wait())

    async def __call__(self, job: Job) -> None:
        self.jobs.put_nowait(job)
        await self._handle(job)

    async def next(self) -> Job:
        return await asyncio.wait_for(self.jobs.get(), TIMEOUT_S)


@asynccontextmanager
async def working(
    bus: Bus,
    handle: Callable[[Job], Awaitable[None]],
    *,
    slots: int = 2,
    drain_s: float | None = None,
    tuning: WorkerTuning = TUNING,
    feeds: Stage | None = None,
    stage: Stage = VOCODER,
    watch: LoopWatch | None = None,
) -> AsyncIterator[Worker]:
    """Jobs that a test has only `Seen` end with it, unless they have `drain_s` to do so."""

    def report() -> Replica:
        return Replica(bus.worker_id, stage.name, (), slots, worker.free)

    worker = Worker(
        *(bus, stage, ["m"], slots, handle, report, Metrics(), tuning, feeds), watch=lambda: watch
    )
    stopping = asyncio.Event()
    ready = asyncio.Event()
    task = asyncio.create_task(worker.run(stopping, drain_s or 5.0, ready.set))
    await asyncio.wait_for(ready.wait(), TIMEOUT_S)
    try:
        yield worker
    finally:
        stopping.set()
        if bus.link.closed:  # it died
            await stop(task)
        else:
            if isinstance(handle, Seen) and drain_s is None:
                handle.finish.set()
            await asyncio.wait_for(task, TIMEOUT_S)


def request(name: str) -> SpeechRequest:
    return SpeechRequest(name, "m", "v", "hello")


async def queued_jobs(bus: Bus) -> int:
    """Jobs that are not acknowledged."""
    return len(await bus.queue.jobs())


async def none_queued(bus: Bus) -> bool:
    return await queued_jobs(bus) == 0


async def work(client: Bus, seen: Seen, request_id: str = "r") -> Job:
    """A vocoder has the request's job, and has written its lease."""
    await client.submit(VOCODER, request(request_id))
    job = await seen.next()
    await until(lambda: leased(client, request_id))
    return job


async def claim(bus: Bus, stage: Stage = VOCODER) -> Delivery:
    """Take the next job as a worker does that dies before it writes its lease."""
    async with asyncio.timeout(TIMEOUT_S):
        return await JobFeed(bus.link, stage, "m").next()


async def claimed(bus: Bus) -> Delivery:
    """The talkers' job of a request is in a worker's hands."""
    await bus.submit(TALKER, REQUEST)
    return await claim(bus, TALKER)


async def hold(bus: Bus, delivery: Delivery, worker_id: str = DEAD, **known: Any) -> Lease:
    """The worker has written its lease. `known`: of the job's past."""
    epoch = delivery.epoch(REQUEST)
    lease = Lease(worker_id, "talker", "r", epoch, delivery.receipt, **known)
    await bus.kv.put(LEASES, lease.key, lease.encode())
    return lease


async def answer(bus: Bus, subject: str, said: Callable[[], bytes | None]) -> Any:
    """Whoever asks there is told so; None: is not answered. Returns the subscription."""

    async def respond(message: Incoming) -> None:
        if (data := said()) is not None:
            await message.respond(data)

    return await bus.link.subscribe(subject, respond)


async def report_talker(bus: Bus, worker_id: str, free: int = 1) -> None:
    """A live talker has said that it has room."""
    replica = Replica(worker_id, "talker", (Model("m", "f", 16_000, 25.0),), 4, free)
    await bus.kv.put(REPLICAS, worker_id, replica.encode())


async def lease_of(bus: Bus, request_id: str = "r", stage: Stage = VOCODER) -> Any:
    """The newest of the request, a Lease, or None."""
    return (await JobLeases.read(bus, stage.name, request_id)).newest


async def leased(bus: Bus, request_id: str = "r", stage: Stage = VOCODER) -> bool:
    return await lease_of(bus, request_id, stage) is not None


async def unleased(bus: Bus, request_id: str = "r", stage: Stage = VOCODER) -> bool:
    return not await leased(bus, request_id, stage)


async def ended(bus: Bus, request_id: str = "r") -> End:
    async with asyncio.timeout(TIMEOUT_S), bus.audio_reader(request_id) as reader:
        async for record in reader:
            if isinstance(record, End):
                return record
    raise AssertionError("no End")


def handover(epoch: int, name: str = "r") -> HandOver:
    return HandOver(request(name).again_now(), epoch, "$JS.ACK.nowhere", 1)


async def hand(client: Bus, worker: Bus, offer: HandOver) -> bytes:
    return await client.link.request(subjects.handover(worker.worker_id), offer.encode(), 5.0)
