"""`python -m tests.chaos purges`: what it costs the broker to remove ended requests.

Requests write their records in turn, as requests do that are spoken together, while as many that
come after them are still needed. Then a gateway's Retention removes them: one by one, by subject,
and all at once, by sequence. A line of JSON for each: milliseconds of the broker's processor and
milliseconds that passed, each per request.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import psutil

from antiphon.stack import LocalStack, StackConfig
from gateway.requests.horizon import HorizonTuning
from gateway.requests.retention import Retention, RetentionTuning
from tests.chaos.command import in_folder, options
from tests.chaos.stack import connected
from ttscommon.bus import Bus
from ttscommon.wire.subjects import AUDIO, CODES, Log

# Five seconds of speech.
_RECORDS: Final[dict[Log, tuple[int, int]]] = {CODES: (12, 200), AUDIO: (3, 80)}
_NEVER_S: Final = 1e9
_KEEP_S: Final = 1e6
_WAYS: Final = {
    "by_subject": (RetentionTuning(sweep_s=0.05, timeout_s=0.0, share=1.0), _NEVER_S),
    "by_sequence": (RetentionTuning(sweep_s=0.05, timeout_s=_NEVER_S, extents_s=0.5), 0.5),
}


@dataclass
class _Clock:
    ahead_s: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


async def measure(way: str, together: int, folder: Path) -> dict[str, float]:
    """Of one way, while so many requests are spoken together."""
    config = StackConfig(gateways=0, talkers=0, vocoders=0, store=folder)
    async with LocalStack(config) as stack, connected(stack.bus) as bus:
        await bus.setup.create()
        broker = psutil.Process(stack.children["broker"].pid)
        ended = [f"ended{number}" for number in range(together)]
        needed = [f"needed{number}" for number in range(together)]
        clock = _Clock()
        async with _retention(bus, way, clock) as retention:
            await _speak(bus, retention, ended)
            for name in ended:
                retention.left(name, resumable=False, text=False, cancelled=False)
            await _looked(bus)
            await _speak(bus, retention, needed)
            before, began_s = sum(broker.cpu_times()[:2]), time.monotonic()
            clock.ahead_s = _KEEP_S
            while len(retention):
                await asyncio.sleep(0.05)
            spent = sum(broker.cpu_times()[:2]) - before
            took_s = time.monotonic() - began_s
        left = (await bus.trimmer.extents())[CODES.stream]
    if left.last - left.first + 1 < together * _RECORDS[CODES][0]:
        raise RuntimeError("records that are needed have gone")
    return {"cpu_ms": spent * 1000 / together, "passed_ms": took_s * 1000 / together}


@asynccontextmanager
async def _retention(bus: Bus, way: str, clock: _Clock) -> AsyncIterator[Retention]:
    """A lone gateway's, which hears itself."""
    tuning, hold_s = _WAYS[way]
    retention = Retention(bus, _KEEP_S, tuning, HorizonTuning(hold_s, 0.5, _NEVER_S), clock)

    async def tell() -> None:
        while True:
            retention.hear("gateway", retention.report())
            await asyncio.sleep(0.1)

    duties = [asyncio.create_task(retention.run()), asyncio.create_task(tell())]
    yield retention
    for duty in duties:
        duty.cancel()
    await asyncio.gather(*duties, return_exceptions=True)


async def _speak(bus: Bus, retention: Retention, names: Sequence[str]) -> None:
    for name in names:
        retention.begin(name, fresh=True, resumable=False)
    await _write(bus, names)
    await _looked(bus)


async def _looked(bus: Bus) -> None:
    """Wait until the streams have been looked at: what is written then is known to be new."""
    looked = asyncio.Event()
    extents = bus.trimmer.extents

    async def watched() -> object:
        try:
            return await extents()
        finally:
            looked.set()

    bus.trimmer.extents = watched  # type: ignore[method-assign, assignment]
    await looked.wait()
    bus.trimmer.extents = extents  # type: ignore[method-assign]
    await asyncio.sleep(0.05)


async def _write(bus: Bus, names: Sequence[str]) -> None:
    """One record of each in turn, again and again."""
    for log, (records, size) in _RECORDS.items():
        data = os.urandom(size)
        for _ in range(records):
            for name in names:
                await bus.link.send_raw(log.subject(name), data)
            await bus.link.client.flush()
    while (await bus.trimmer.extents())[AUDIO.stream].last % (len(names) * _RECORDS[AUDIO][0]):
        await asyncio.sleep(0.1)


def main() -> None:
    parser = options("purges", __doc__)
    parser.add_argument("--together", type=int, nargs="+", default=[100, 1000, 5000])
    for together in parser.parse_args().together:
        for way in _WAYS:
            found = in_folder(partial(measure, way, together))
            rounded = {name: round(value, 4) for name, value in found.items()}
            print(json.dumps({"way": way, "together": together, **rounded}), flush=True)
