"""What a stack holds: memory, files, threads, subscriptions, consumers, leases, messages."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
from nats.aio.client import Client

from antiphon.stack import LocalStack
from ttscommon.bus import Bus
from ttscommon.wire.subjects import LEASES, LOGS

_PAGE_KIB = 4
_STATS = "$SYS.REQ.SERVER.PING.STATSZ"


@dataclass(frozen=True)
class Held:
    """Sizes at one moment. `rss_mib`, `files` and `threads` are by process."""

    rss_mib: dict[str, float]
    files: dict[str, int]
    threads: dict[str, int]
    subscriptions: int
    consumers: int
    leases: int
    jobs: int

    def fields(self) -> dict[str, object]:
        return asdict(self)


class Probe:
    """Looks into a stack from outside; the broker's own figures come over its system account."""

    def __init__(self, stack: LocalStack, bus: Bus) -> None:
        self._stack = stack
        self._bus = bus
        self._system = Client()

    async def __aenter__(self) -> Probe:
        settings = self._stack.bus
        await self._system.connect(
            list(settings.urls), user=settings.system_user, password=settings.system_password
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._system.close()

    async def look(self) -> Held:
        """Everything, now."""
        pids = {name: child.pid for name, child in self._stack.children.items()}
        living = {name: pid for name, pid in pids.items() if pid is not None}
        link = self._bus.link
        streams = [await link.jetstream.stream_info(link.name(log.stream)) for log in LOGS]
        return Held(
            {name: rss_mib(pid) or 0.0 for name, pid in living.items()},
            {name: len(list(Path(f"/proc/{pid}/fd").iterdir())) for name, pid in living.items()},
            {name: len(list(Path(f"/proc/{pid}/task").iterdir())) for name, pid in living.items()},
            await self.subscriptions(),
            sum(info.state.consumer_count for info in streams),
            len(await self._bus.kv.all(LEASES)),
            len(await self._bus.queue.jobs()),
        )

    async def subscriptions(self) -> int:
        """All of the broker's, its own included."""
        reply = await self._system.request(_STATS, b"", timeout=2.0)
        subscriptions: int = msgspec.json.decode(reply.data)["statsz"]["subscriptions"]
        return subscriptions


def rss_mib(pid: int) -> float | None:
    """A process's memory; None for one that is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return None
    return round(pages * _PAGE_KIB / 1024, 1)


async def log_bytes(bus: Bus) -> dict[str, int]:
    """What each kind of log takes at the broker."""
    link = bus.link
    infos = [await link.jetstream.stream_info(link.name(log.stream)) for log in LOGS]
    return {log.stream: info.state.bytes for log, info in zip(LOGS, infos, strict=True)}
