"""`python -m tests.chaos leases`: what a lease costs the broker, by the order of its key's parts.

Writes so many leases of so many workers, and more beside them as workers do that take jobs, and
lists those of one worker. A line of JSON for each order, in milliseconds of the broker's processor.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil

from antiphon.stack import LocalStack, StackConfig
from ttscommon.bus import Bus
from ttscommon.wire.subjects import LEASES

_WRITES: Final = 2000
_AT_ONCE: Final = 100
_LISTS: Final = 20
_LEASE: Final = bytes(120)

# The key of a worker's lease, "*" for all of them.
Key = Callable[[str, str], str]

ORDERS: Final[dict[str, Key]] = {
    "request first": lambda request, worker: f"talker.{request}.{worker}",
    "worker first": lambda request, worker: f"{worker}.talker.{request}",
}


async def measure(key: Key, leases: int, workers: int, folder: Path) -> dict[str, float]:
    """Of one order: a write where the job has no lease yet, and the list of a worker's leases."""
    config = StackConfig(gateways=0, talkers=0, vocoders=0, store=folder)
    async with LocalStack(config) as stack:
        bus = await Bus.connect(stack.bus, "talker")
        await bus.ensure()
        broker = psutil.Process(stack.children["broker"].pid)

        def spent_s() -> float:
            return sum(broker.cpu_times()[:2])

        async def write(number: int) -> None:
            name, worker = f"request{number:016d}", f"worker{number % workers:012d}"
            await bus.kv.replace_among(LEASES, key(name, "*"), key(name, worker), _LEASE, 0)

        async def write_all(first: int, end: int) -> None:
            for start in range(first, end, _AT_ONCE):
                numbers = range(start, min(end, start + _AT_ONCE))
                await asyncio.gather(*(write(number) for number in numbers))

        await write_all(0, leases)
        before_s = spent_s()
        await write_all(leases, leases + _WRITES)
        written_s = spent_s()
        for number in range(_LISTS):
            await bus.kv.entries(LEASES, key("*", f"worker{number:012d}"))
        listed_s = spent_s()
        await bus.close()
    return {
        "write_ms": round((written_s - before_s) * 1000 / _WRITES, 4),
        "list_ms": round((listed_s - written_s) * 1000 / _LISTS, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos leases", description=__doc__)
    parser.add_argument("--leases", type=int, default=10_240)
    parser.add_argument("--workers", type=int, default=160)
    wanted = parser.parse_args()
    for name, key in ORDERS.items():
        with tempfile.TemporaryDirectory(prefix="leases-") as folder:
            found = asyncio.run(measure(key, wanted.leases, wanted.workers, Path(folder)))
        print(json.dumps({"order": name, **found}), flush=True)


if __name__ == "__main__":
    main()
