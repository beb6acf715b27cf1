"""`python -m tests.chaos hogs`: gaps and refusals while other programs use the machine.

    python -m tests.chaos hogs [--hogs 16] [--rate 1] [--for-s 20] [--engine torch] [--tree PATH]
    python -m tests.chaos hogs --in-flight 4 --sentences 4

The hogs start beside a stack that serves already. Streams that were accepted more than a second
later must have no gap, and requests are to be refused for what there is no room for, not for more.
With `--in-flight` so many clients ask again as soon as their text was heard, or a second after they
were refused; a sentence is five seconds of speech.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.local import Engine
from tests.chaos.command import in_folder, of_checkout, options
from tests.chaos.listener import Heard, listen
from ttscommon.sound.playback import PlaybackAccount

TEXT: Final = "The tide comes in over the sand, and the boats turn slowly on their chains."
_HOG: Final = "while True: pass"
_WARM_S: Final = 3.0
_LATER_S: Final = 1.0
_RETRY_S: Final = 1.0
# What a listener does not notice.
_GAP_S: Final = 0.001


@dataclass
class Figures:
    """Of the streams that were asked for more than a second after the hogs began. `gaps`: of those
    that had one, the moment of asking, where in their speech it was, and how long.
    """

    asked: int = 0
    refused: int = 0
    failed: int = 0
    with_gap: int = 0
    worst_gap_s: float = 0.0
    ttfp_p50_s: float = 0.0
    ttfp_most_s: float = 0.0
    load: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)
    gaps: list[tuple[float, float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Load:
    """Requests `rate` times a second, in even steps, or always `in_flight` of them."""

    rate: float
    for_s: float
    in_flight: int = 0
    sentences: int = 1

    @property
    def text(self) -> str:
        return " ".join([TEXT] * self.sentences)


async def measure(folder: Path, engine: Engine, hogs: int, load: Load) -> list[Heard]:
    """Ask before the hogs begin and while they run; `asked_s` is since they began."""
    config = StackConfig(port=0, engine=engine, store=folder / "store", log_level="warning")
    async with LocalStack(config) as stack:
        await listen(stack.url, 0, TEXT)  # warm
        began_s = time.monotonic() + _WARM_S
        ask = _ask_again if load.in_flight else _ask_all
        asking = asyncio.create_task(ask(stack.url, began_s + load.for_s, load))
        await asyncio.sleep(_WARM_S)
        with eating(hogs):
            streams = await asking
    return [stream for stream in streams if stream.asked_s > began_s + _LATER_S]


async def _ask_all(url: str, until_s: float, load: Load) -> list[Heard]:
    tasks: list[asyncio.Task[Heard]] = []
    while time.monotonic() < until_s:
        tasks.append(asyncio.create_task(_hear(url, load, len(tasks))))
        await asyncio.sleep(1.0 / load.rate)
    return await asyncio.gather(*tasks)


async def _ask_again(url: str, until_s: float, load: Load) -> list[Heard]:
    streams: list[Heard] = []

    async def client() -> None:
        while time.monotonic() < until_s:
            streams.append(heard := await _hear(url, load, len(streams)))
            if heard.refused:
                await asyncio.sleep(_RETRY_S)

    await asyncio.gather(*(client() for _ in range(load.in_flight)))
    return streams


async def _hear(url: str, load: Load, seed: int) -> Heard:
    return await listen(url, seed, load.text, patient=False)


def longest_gap(heard: Heard) -> tuple[float, float]:
    """Of a listener that plays at once: how long it was, and how far into the speech. Seconds."""
    account, longest = PlaybackAccount(heard.sample_rate or 1), (0.0, 0.0)
    for moment_s, samples in heard.arrivals:
        if samples:
            at_s = account.duration_s
            longest = max(longest, (account.feed(samples, moment_s).underrun_s, at_s))
    return longest


@contextmanager
def eating(hogs: int) -> Iterator[None]:
    """So many processes that compute until they are ended.

    Each in a session of its own, as the services are: a kernel that groups processes by sessions
    would else give all of them together as much as one service.
    """
    command = [sys.executable, "-c", _HOG]
    running = [subprocess.Popen(command, start_new_session=True) for _ in range(hogs)]
    try:
        yield
    finally:
        for hog in running:
            hog.kill()
        for hog in running:
            hog.wait()


def figures(later: list[Heard]) -> Figures:
    """Of those that count."""
    waits = sorted(each.wait_s for each in later if each.arrivals)
    found = [(each, *longest_gap(each)) for each in later]
    gaps = [(each.asked_s, at_s, gap_s) for each, gap_s, at_s in found if gap_s > _GAP_S]
    refusals = [each.refusal for each in later if each.refused]
    return Figures(
        asked=len(later),
        refused=len(refusals),
        failed=sum(each.outcome != "ok" and not each.refused for each in later),
        with_gap=len(gaps),
        worst_gap_s=round(max((gap_s for *_, gap_s in gaps), default=0.0), 3),
        ttfp_p50_s=round(waits[len(waits) // 2], 3) if waits else 0.0,
        ttfp_most_s=round(waits[-1], 3) if waits else 0.0,
        load=os.getloadavg()[0],
        gaps=[
            (round(asked_s, 1), round(at_s, 2), round(gap_s, 3)) for asked_s, at_s, gap_s in gaps
        ],
        reasons=dict(Counter(" ".join(said.split()[:4]) for said in refusals)),
    )


def main() -> int:
    """Returns the exit status: 1 where a stream had a gap or failed."""
    parser = options("hogs", (__doc__ or "").splitlines()[0])
    parser.add_argument("--hogs", type=int, default=16)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--for-s", type=float, default=20.0)
    parser.add_argument("--in-flight", type=int, default=0)
    parser.add_argument("--sentences", type=int, default=1)
    parser.add_argument("--engine", choices=("torch", "fake"), default="torch")
    parser.add_argument("--tree", type=Path, help="another checkout to measure in place of this")
    told = parser.parse_args()
    if told.tree is not None:
        again = [a for a in sys.argv[1:] if a != "--tree" and a != str(told.tree)]
        command = [sys.executable, __file__, *again]
        environ = of_checkout(told.tree)
        return subprocess.run(command, env=environ, cwd=told.tree, check=False).returncode
    load = Load(told.rate, told.for_s, told.in_flight, told.sentences)
    found = figures(in_folder(lambda folder: measure(folder, told.engine, told.hogs, load)))
    print(json.dumps(vars(found)))
    return int(bool(found.with_gap or found.failed))


if __name__ == "__main__":
    sys.exit(main())
