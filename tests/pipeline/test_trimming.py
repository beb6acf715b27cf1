"""Two gateways at a real broker: what neither needs goes at once for all, and nothing else."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.admission import Admission, Exchange
from gateway.admission.exchange import ExchangeTuning
from gateway.requests.horizon import HorizonTuning
from gateway.requests.retention import Retention, RetentionTuning
from gateway.settings import GatewaySettings
from ttscommon.bus import Bus
from ttscommon.bus.link import Link
from ttscommon.bus.logs.logstore import RequestLog
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.wire import subjects
from ttscommon.wire.messages import End
from ttscommon.wire.subjects import LOGS

QUICK = RetentionTuning(resumable_s=0.0, sweep_s=0.01, extents_s=0.02)
SHORT = HorizonTuning(hold_s=0.3, settle_s=0.1)
CHATTY = ExchangeTuning(pause_s=0.01, beat_s=0.05)
ALL = {"TEXT", "CODES", "AUDIO", "tombstone"}


@dataclass
class Front:
    """One gateway's part in the logs, and how many requests it removed one by one."""

    bus: Bus
    retention: Retention
    purges: Counter[Link]

    async def speak(self, name: str) -> None:
        """A request that is heard here and has a record in each log, and a tombstone."""
        self.retention.begin(name, fresh=True, resumable=True)
        for log in LOGS:
            writer = await self.bus.writer(log, name, epoch=1)
            await writer.end(End(name, 0, "ok"))
            await writer.close()
        await self.bus.kv.put(subjects.TOMBSTONES, name, b"client left")

    def leave(self, name: str) -> None:
        self.retention.left(name, resumable=True, text=True, cancelled=True)

    @property
    def purged(self) -> int:
        return self.purges[self.bus.link]


@contextlib.asynccontextmanager
async def front(broker: Any, purges: Counter[Link]) -> AsyncIterator[Front]:
    bus = await Bus.connect(broker.bus, "gateway")
    await bus.setup.create()
    found = Front(bus, Retention(bus, 0.0, QUICK, SHORT), purges)
    catalogue: Any = SimpleNamespace(own=Counter[str](), offline=Counter[str]())
    admission = Admission(GatewaySettings(), catalogue, GatewayMetrics())
    duties = [
        asyncio.create_task(Exchange(bus, admission, found.retention, CHATTY).run()),
        asyncio.create_task(found.retention.run()),
    ]
    yield found
    for duty in duties:
        duty.cancel()
    await asyncio.gather(*duties, return_exceptions=True)
    await bus.close()


@pytest.fixture
async def fronts(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Front, Front]]:
    purges: Counter[Link] = Counter()

    async def purge(log: RequestLog) -> None:
        purges[log.link] += 1

    monkeypatch.setattr(RequestLog, "purge", purge)
    async with front(broker, purges) as one, front(broker, purges) as other:
        yield one, other


async def kept(bus: Bus, name: str) -> set[str]:
    logs = {log.stream for log in LOGS if await bus.log(log, name).read(0)}
    tombstone = await bus.kv.get(subjects.TOMBSTONES, name)
    return logs | ({"tombstone"} if tombstone is not None else set())


async def until_gone(bus: Bus, *names: str) -> None:
    async with asyncio.timeout(20):
        while any([await kept(bus, name) for name in names]):
            await asyncio.sleep(0.02)


async def test_what_lies_before_everything_that_gateways_need_goes_together(
    fronts: tuple[Front, Front],
) -> None:
    one, other = fronts
    for name in "abc":
        await one.speak(name)
    await other.speak("d")
    await until_seen(one, other)
    await one.speak("e")
    for name in "abce":
        one.leave(name)
    other.leave("d")
    await until_gone(one.bus, *"abcde")
    assert (one.purged, other.purged) == (0, 0)


async def test_what_one_gateway_hears_the_other_does_not_remove(
    fronts: tuple[Front, Front],
) -> None:
    one, other = fronts
    await one.speak("before")
    await until_seen(one, other)
    await other.speak("heard")
    await one.speak("behind")
    one.leave("before")
    one.leave("behind")
    await until_gone(one.bus, "before")
    assert await kept(one.bus, "heard") == ALL
    # Its client comes back to the other gateway, which says so; the first one lets go.
    one.retention.begin("heard", fresh=False, resumable=True)
    other.retention.handed_on("heard")
    await other.speak("later")
    other.leave("later")
    await until_seen(one, other)
    assert await kept(one.bus, "heard") == ALL
    assert await kept(one.bus, "behind") == ALL
    one.leave("heard")
    await until_gone(one.bus, "heard", "behind", "later")


async def until_seen(*fronts: Front) -> None:
    """Every gateway has looked at the streams, and removed what it could, several times."""
    for each in fronts:
        looked = asyncio.Event()
        left, extents = 15, each.bus.trimmer.extents

        async def watched(extents: Any = extents, looked: asyncio.Event = looked) -> Any:
            nonlocal left
            left -= 1
            if not left:
                looked.set()
            return await extents()

        each.bus.trimmer.extents = watched  # type: ignore[method-assign]
        async with asyncio.timeout(20):
            await looked.wait()
        each.bus.trimmer.extents = extents  # type: ignore[method-assign]
