"""`python -m tests.chaos hogs`: gaps and refusals while other programs use the machine.

    python -m tests.chaos hogs [--hogs 16] [--rate 1] [--for-s 20] [--engine torch] [--tree PATH]
    python -m tests.chaos hogs --in-flight 4 --sentences 4

The hogs start beside a stack that serves already. Streams that were accepted more than a second
later must have no gap, and requests are to be refused for what there is no room for, not for more.
With `--in-flight` so many clients ask again as soon as their text was heard, or a second after they
were refused; a sentence is five seconds of speech.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from antiphon.client import Audio, Finished, GatewayError, SpeechOptions, Started, speak
from antiphon.say import whole
from antiphon.stack import LocalStack, StackConfig
from antiphon.stack.local import Engine
from tests.chaos.spent import _PARTS as PARTS
from ttscommon.sound.playback import PlaybackAccount

TEXT: Final = "The tide comes in over the sand, and the boats turn slowly on their chains."
_HOG: Final = "while True: pass"
_WARM_S: Final = 3.0
_LATER_S: Final = 1.0
_RETRY_S: Final = 1.0
_TIMEOUT_S: Final = 120.0
# What a listener does not notice.
_GAP_S: Final = 0.001


@dataclass
class Stream:
    """One request, as its client saw it. `asked_s`: from the moment at which the hogs began.
    `gap_s`: its longest gap, `gap_at_s` into its speech.
    """

    asked_s: float
    refused: str = ""
    failed: str = ""
    ttfp_s: float = 0.0
    account: PlaybackAccount | None = field(default=None, repr=False)

    gap_s: float = 0.0
    gap_at_s: float = 0.0

    def hear(self, samples: int, now_s: float) -> None:
        """Samples came. The longest gap is that of a listener that plays at once."""
        if self.account is not None:
            at_s = self.account.duration_s
            gap_s = self.account.feed(samples, now_s).underrun_s
            if gap_s > self.gap_s:
                self.gap_s, self.gap_at_s = gap_s, at_s


@dataclass
class Figures:
    """Of the streams that were asked for more than a second after the hogs began. `gaps`: when
    those that had one were asked for, where in their speech it was, and how long.
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


async def measure(engine: Engine, hogs: int, load: Load, folder: Path) -> list[Stream]:
    """Ask before the hogs begin and while they run."""
    config = StackConfig(port=0, engine=engine, store=folder / "store", log_level="warning")
    async with LocalStack(config) as stack:
        await _hear(stack.url, TEXT, Stream(0.0))  # warm
        began_s = time.monotonic() + _WARM_S
        ask = _ask_again if load.in_flight else _ask_all
        asking = asyncio.create_task(ask(stack.url, began_s, load))
        await asyncio.sleep(_WARM_S)
        with eating(hogs):
            return await asking


async def _ask_all(url: str, began_s: float, load: Load) -> list[Stream]:
    streams, tasks = [], []
    while (now_s := time.monotonic()) < began_s + load.for_s:
        streams.append(Stream(now_s - began_s))
        tasks.append(asyncio.create_task(_hear(url, load.text, streams[-1])))
        await asyncio.sleep(1.0 / load.rate)
    await asyncio.gather(*tasks)
    return streams


async def _ask_again(url: str, began_s: float, load: Load) -> list[Stream]:
    streams: list[Stream] = []

    async def client() -> None:
        while (now_s := time.monotonic()) < began_s + load.for_s:
            streams.append(stream := Stream(now_s - began_s))
            await _hear(url, load.text, stream)
            if stream.refused:
                await asyncio.sleep(_RETRY_S)

    await asyncio.gather(*(client() for _ in range(load.in_flight)))
    return streams


async def _hear(url: str, text: str, stream: Stream) -> None:
    asked_s = time.monotonic()
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            async for event in speak(url, whole(text), SpeechOptions()):
                match event:
                    case Started():
                        stream.account = PlaybackAccount(event.sample_rate)
                    case Audio(pcm) if pcm and stream.account is not None:
                        now_s = time.monotonic()
                        stream.ttfp_s = stream.ttfp_s or now_s - asked_s
                        stream.hear(len(pcm) // 2, now_s)
                    case Finished(outcome) if outcome != "ok":
                        stream.failed = outcome
    except GatewayError as error:
        if error.code == "overloaded":
            stream.refused = str(error)
        else:
            stream.failed = str(error)
    except TimeoutError:
        stream.failed = "hung"


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


def figures(streams: list[Stream]) -> Figures:
    """Of those that count."""
    later = [stream for stream in streams if stream.asked_s > _LATER_S]
    heard = sorted(stream.ttfp_s for stream in later if stream.ttfp_s)
    return Figures(
        asked=len(later),
        refused=sum(bool(stream.refused) for stream in later),
        failed=sum(bool(stream.failed) for stream in later),
        with_gap=sum(stream.gap_s > _GAP_S for stream in later),
        worst_gap_s=round(max((stream.gap_s for stream in later), default=0.0), 3),
        ttfp_p50_s=round(heard[len(heard) // 2], 3) if heard else 0.0,
        ttfp_most_s=round(heard[-1], 3) if heard else 0.0,
        load=os.getloadavg()[0],
        gaps=[
            (round(s.asked_s, 1), round(s.gap_at_s, 2), round(s.gap_s, 3))
            for s in later
            if s.gap_s > _GAP_S
        ],
        reasons=dict(Counter(" ".join(s.refused.split()[:4]) for s in later if s.refused)),
    )


def main() -> int:
    """Returns the exit status: 1 where a stream had a gap or failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hogs", type=int, default=16)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--for-s", type=float, default=20.0)
    parser.add_argument("--in-flight", type=int, default=0)
    parser.add_argument("--sentences", type=int, default=1)
    parser.add_argument("--engine", choices=("torch", "fake"), default="torch")
    parser.add_argument("--tree", type=Path, help="another checkout to measure in place of this")
    options = parser.parse_args()
    if options.tree is not None:
        path = os.pathsep.join(str(options.tree / part) for part in PARTS)
        again = [a for a in sys.argv[1:] if a != "--tree" and a != str(options.tree)]
        command = [sys.executable, __file__, *again]
        here = str(Path(__file__).resolve().parents[2])
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join((path, here))}
        return subprocess.run(command, env=environ, cwd=options.tree, check=False).returncode
    with tempfile.TemporaryDirectory(prefix="hogs-") as folder:
        load = Load(options.rate, options.for_s, options.in_flight, options.sentences)
        streams = asyncio.run(measure(options.engine, options.hogs, load, Path(folder)))
    found = figures(streams)
    print(json.dumps(vars(found)))
    return int(bool(found.with_gap or found.failed))


if __name__ == "__main__":
    sys.exit(main())
