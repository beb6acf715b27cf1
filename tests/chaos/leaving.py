"""`python -m tests.chaos leaving`: clients vanish at random moments, and everything comes back.

Measures the time from the last one's going until no slot, KV block, lease, job, consumer or
subscription of theirs is left. Out come a table and build/leaving.json.
"""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.clients import LEAVING, TestClient, Unexpected
from tests.chaos.command import OPEN_DOOR, in_folder, markdown, options, write
from tests.chaos.leaks import LeakCheck
from tests.chaos.probe import Probe
from tests.chaos.stack import ChaosStack, chaos_stack, running
from ttscommon.bus import Bus

_GIVE_UP_S = 60.0
_LOOK_AGAIN_S = 0.02
_SETTLE_S = 5.0


@dataclass
class Wave:
    """Clients who left together, and how long what they had took to come back."""

    kind: str
    clients: int
    freed_s: float
    leftovers: list[str]
    disappointed: int


async def run(folder: Path, clients: int, waves: int, engine: str, seed: int) -> list[Wave]:
    """`waves` waves of each kind of leaving, so many `clients` altogether."""
    dice = random.Random(seed)
    each = max(1, clients // (len(LEAVING) * waves))
    stack = chaos_stack(folder, engine=engine, gateway=OPEN_DOOR)
    async with running(stack) as bus:
        for client in LEAVING:  # what a process needs once, it keeps
            await client(stack.url, dice)
        async with Probe(stack, bus) as probe:
            return [
                await _wave(stack, bus, probe, client, each, dice)
                for client in LEAVING
                for _ in range(waves)
            ]


async def _wave(
    stack: ChaosStack, bus: Bus, probe: Probe, client: TestClient, clients: int, dice: random.Random
) -> Wave:
    leaks = LeakCheck(stack, bus)
    before = await _calm(probe)
    visits = [client(stack.url, random.Random(dice.random())) for _ in range(clients)]
    results = await asyncio.gather(*visits, return_exceptions=True)
    left_s = time.monotonic()
    failures = Counter(type(r) for r in results if isinstance(r, BaseException))
    strange = set(failures) - {Unexpected}
    if strange:
        raise RuntimeError(f"clients failed with {strange}")
    while leftovers := await _leftovers(leaks, probe, before):
        if time.monotonic() - left_s > _GIVE_UP_S:
            break
        await asyncio.sleep(_LOOK_AGAIN_S)
    freed_s = time.monotonic() - left_s
    return Wave(client.__name__, clients, freed_s, leftovers, failures[Unexpected])


async def _leftovers(leaks: LeakCheck, probe: Probe, before: int) -> list[str]:
    found = await leaks.leftovers()
    subscriptions = await probe.subscriptions()
    if subscriptions > before:
        found.append(f"{subscriptions - before} subscriptions are left")
    return found


async def _calm(probe: Probe) -> int:
    """Subscriptions of the idle stack: the most seen in a while, since workers pull in turns."""
    until_s = time.monotonic() + _SETTLE_S
    most = 0
    while time.monotonic() < until_s:
        most = max(most, await probe.subscriptions())
        await asyncio.sleep(0.1)
    return most


def table(waves: list[Wave]) -> str:
    """Markdown."""
    rows = []
    for kind in dict.fromkeys(wave.kind for wave in waves):
        own = [wave for wave in waves if wave.kind == kind]
        worst = max(wave.freed_s for wave in own)
        left = sum(len(wave.leftovers) for wave in own)
        rows.append((kind, sum(wave.clients for wave in own), f"{worst:.2f} s", left))
    return markdown(("leaving", "clients", "freed after, worst", "leftovers"), rows)


def main() -> int:
    """Exit status 1 if anything is left over."""
    parser = options("leaving", __doc__, out=True)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--waves", type=int, default=5, help="of each kind of leaving")
    parser.add_argument("--engine", choices=["fake", "torch"], default="fake")
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    wanted = (told.clients, told.waves, told.engine, told.seed)
    waves = in_folder(lambda folder: run(folder, *wanted))
    write(told.out, [vars(wave) for wave in waves])
    print(table(waves))
    for wave in waves:
        for leftover in wave.leftovers:
            print(f"{wave.kind}: {leftover}")
    return int(any(wave.leftovers for wave in waves))
