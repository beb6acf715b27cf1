"""Holds a store against the promise: every request has exactly one End, and nothing is left."""

import asyncio
import time
from collections.abc import Iterable, Sequence

import httpx

from antiphon.stack import LocalStack
from ttscommon.bus import Bus
from ttscommon.bus.faults import Unreachable
from ttscommon.wire.errors import BusUnavailable
from ttscommon.wire.messages import End, LogRecord
from ttscommon.wire.subjects import ACK_WAIT_S, AUDIO, CODES, LEASES, LOGS, Log

# A job whose acknowledgement the broker lost comes back after ack_wait, which is the last resort.
_TIMEOUT_S = ACK_WAIT_S + 15.0
_LOOK_AGAIN_S = 0.1
_NO_LEASE_OF_A_JOB = "reaper"


def complaint(records: Sequence[LogRecord]) -> str | None:
    """What is wrong with the end of a log, if anything is."""
    ends = sum(isinstance(record, End) for record in records)
    if ends != 1:
        return f"has {ends} ends"
    if not isinstance(records[-1], End):
        return "goes on after its end"
    return None


class LeakCheck:
    """Looks after the requests of one stack; what was found in order once is not read again."""

    def __init__(self, stack: LocalStack, bus: Bus) -> None:
        self._stack = stack
        self._bus = bus
        self._fine: set[tuple[str, str]] = set()

    async def check(self, timeout_s: float = _TIMEOUT_S) -> list[str]:
        """What is wrong after everything had time to settle; empty if nothing is."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                problems = [*await self._unended(), *await self.leftovers()]
            except (*Unreachable, BusUnavailable, httpx.HTTPError) as error:
                problems = [f"cannot look: {error!r}"]
            if not problems or time.monotonic() > deadline_s:
                return problems
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def leftovers(self) -> list[str]:
        """Jobs, leases, consumers and streams in engines that nobody needs any more."""
        found: list[str] = []
        link = self._bus.link
        jobs = len(await self._bus.queue.jobs())
        if jobs:
            found.append(f"{jobs} jobs are left")
        leases = set(await self._bus.kv.all(LEASES)) - {_NO_LEASE_OF_A_JOB}
        if leases:
            found.append(f"leases are left: {sorted(leases)}")
        for log in LOGS:
            info = await link.jetstream.stream_info(link.name(log.stream))
            consumers = info.state.consumer_count
            if consumers:
                found.append(f"{consumers} consumers are left on {log.stream}")
        return found + await self._busy()

    async def _unended(self) -> list[str]:
        found: list[str] = []
        for log in (CODES, AUDIO):
            for request_id in await self._requests(log):
                if (log.stream, request_id) in self._fine:
                    continue
                stored = await self._bus.log(log, request_id).read(0)
                problem = complaint([each.record for each in stored])
                if problem is None:
                    self._fine.add((log.stream, request_id))
                else:
                    found.append(f"{log.subject(request_id)} {problem}")
        return found

    async def _requests(self, log: Log) -> list[str]:
        link = self._bus.link
        name = link.name(log.stream)
        info = await link.jetstream.stream_info(name, subjects_filter=">")
        prefix = link.subject(f"{log.prefix}.")
        return [subject.removeprefix(prefix) for subject in info.state.subjects or {}]

    async def _busy(self) -> list[str]:
        names = [name for name in self._stack.children if name.split("-")[0] != "broker"]
        async with httpx.AsyncClient(timeout=2.0) as client:
            pages = await asyncio.gather(*(self._metrics(client, name) for name in names))
        return [
            f"{name} still has {what} {value:g}"
            for name, page in zip(names, pages, strict=True)
            for what, value in page
        ]

    async def _metrics(self, client: httpx.AsyncClient, name: str) -> list[tuple[str, float]]:
        port = self._stack.children[name].ports["admin"]
        page = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
        return list(in_use(page.splitlines()))


def in_use(page: Iterable[str]) -> Iterable[tuple[str, float]]:
    """Streams and KV blocks that a service's /metrics shows in use."""
    for line in page:
        used = line.startswith("tts_kv_blocks{") and 'state="used"' in line
        if used or line.startswith("tts_active_streams"):
            what, value = line.rsplit(" ", 1)
            if float(value):
                yield what, float(value)
