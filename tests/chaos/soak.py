"""`python -m tests.chaos soak`: thousands of requests of every kind, and nothing grows.

Clients listen, post, cancel, vanish, resume and ask for what there is not. What the stack holds
is looked at while nobody speaks, after a warm-up and then every so many requests; the growth per
1,000 requests is a line through these looks. Out come a table and build/soak.json.
"""

import asyncio
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from websockets.exceptions import WebSocketException

from tests.chaos.clients import MIXED, TestClient, Unexpected
from tests.chaos.command import OPEN_DOOR, in_folder, markdown, options, write
from tests.chaos.leaks import LeakCheck
from tests.chaos.probe import Held, Probe
from tests.chaos.stack import chaos_stack, running

_LOOKS = 10
_FAST_CURVE = {"base_s": 0.001, "stream_s": 0.00002, "prefill_s": 0.0005}
_TROUBLE = (Unexpected, OSError, TimeoutError, httpx.HTTPError, WebSocketException)
_KINDS = ("rss_mib", "files", "threads")


async def run(folder: Path, requests: int, at_once: int, seed: int) -> dict[str, Any]:
    """Figures and problems of a soak; see `main`."""
    dice = random.Random(seed)
    stack = chaos_stack(folder, gateway=OPEN_DOOR, talker_curve=_FAST_CURVE)
    failures: Counter[str] = Counter()
    looks: list[tuple[int, Held]] = []
    problems: list[str] = []
    async with running(stack) as bus, Probe(stack, bus) as probe:
        leaks = LeakCheck(stack, bus)
        began_s = time.monotonic()
        for number in range(_LOOKS + 1):
            failures += await _batch(stack.url, requests // _LOOKS, at_once, dice)
            problems += await leaks.check()
            looks.append(((number + 1) * (requests // _LOOKS), await probe.look()))
            print(f"{looks[-1][0]} requests, {dict(failures) or 'no failure'}", flush=True)
        took_s = time.monotonic() - began_s
    return {
        "requests": looks[-1][0],
        "took_s": round(took_s, 1),
        "failures": dict(failures),
        "problems": problems,
        "growth_per_1000": growth(looks),
        "looks": [{"requests": count, **held.fields()} for count, held in looks],
    }


async def _batch(url: str, count: int, at_once: int, dice: random.Random) -> Counter[str]:
    places = asyncio.Semaphore(at_once)
    failures: Counter[str] = Counter()

    async def visit(client: TestClient, own: random.Random) -> None:
        async with places:
            try:
                await client(url, own)
            except _TROUBLE as error:
                failures[f"{client.__name__}: {type(error).__name__} {error}"[:200]] += 1

    clients = dice.choices(list(MIXED), list(MIXED.values()), k=count)
    await asyncio.gather(*(visit(client, random.Random(dice.random())) for client in clients))
    return failures


def growth(looks: list[tuple[int, Held]]) -> dict[str, dict[str, float]]:
    """What grew per 1,000 requests, by process; the first look is the warm-up's and left out."""
    later = looks[1:]
    counts = [count / 1000 for count, _ in later]

    def slope(values: list[float]) -> float:
        return round(float(np.polyfit(counts, values, 1)[0]), 3)

    found = {
        kind: {
            name: slope([getattr(held, kind)[name] for _, held in later])
            for name in getattr(later[0][1], kind)
        }
        for kind in _KINDS
    }
    found["broker"] = {
        kind: slope([getattr(held, kind) for _, held in later])
        for kind in ("subscriptions", "consumers", "leases", "jobs")
    }
    return found


def table(report: dict[str, Any]) -> str:
    """Markdown: growth per 1,000 requests."""
    grown, last = report["growth_per_1000"], report["looks"][-1]
    rows = [
        (
            name,
            f"{last['rss_mib'][name]:.0f} MiB",
            f"{grown['rss_mib'][name]:+.2f} MiB",
            *(f"{grown[kind][name]:+.2f}" for kind in ("files", "threads")),
        )
        for name in grown["rss_mib"]
    ]
    broker = ", ".join(f"{kind} {value:+.2f}" for kind, value in grown["broker"].items())
    lines = markdown(("process", "RSS now", "RSS", "files", "threads"), rows)
    return f"{lines}\nat the broker: {broker}"


def main() -> int:
    """Exit status 1 if a client was disappointed or a request left without its one end."""
    parser = options("soak", __doc__, out=True)
    parser.add_argument("--requests", type=int, default=5000, help="after a warm-up of a tenth")
    parser.add_argument("--at-once", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    report = in_folder(lambda folder: run(folder, told.requests, told.at_once, told.seed))
    write(told.out, report)
    print(table(report))
    print(f"{report['requests']} requests in {report['took_s']} s")
    for trouble in [*report["failures"].items(), *report["problems"]]:
        print(trouble)
    return int(bool(report["failures"] or report["problems"]))
