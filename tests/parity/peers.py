"""Speech systems side by side: the first sound of each, and how many can listen to it.

A system is a server that is told a JSON body and answers with 16-bit sound, or a package in a
process of its own, which speaks one text at a time.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, Protocol

import aiohttp
import psutil
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from antiphon_bench.plots import Theme, figure, milliseconds
from ttscommon.sound.playback import PlaybackAccount

WORDS: Final = 8, 25, 60
_WAV_HEADER: Final = 44
_STEADY: Final = 1.6
"""A trial lasts so many times as long as a text: all have begun, and some have ended."""
_GAP_S: Final = 0.001
# A process that takes less than this share of a core for so long has nothing left to say.
_IDLE_CORES: Final = 0.2
_IDLE_S: Final = 0.5
_SETTLED_WITHIN_S: Final = 120.0
_TEXT: Final = (
    "The morning train was late again so we walked along the river to the old market where a man"
    " was selling apples and bread and my sister bought a small blue cup that she still keeps on"
    " the shelf above her desk next to a letter that our father wrote when he was young and lived"
    " in a house by the sea with two dogs"
)


class Playback(PlaybackAccount):
    """The playback of a listener that asks now and plays from the first sound on."""

    def __init__(self, rate: int) -> None:
        """`rate`: samples a second."""
        super().__init__(rate)
        self._begun = time.perf_counter()

    def hear(self, samples: int) -> None:
        """So many samples are here."""
        self.feed(samples, self._now_s)

    @property
    def left_s(self) -> float:
        """Of playback, now."""
        return self.slack_s(self._now_s)

    def kept(self, within_s: float) -> bool:
        """Whether it began in time, or still may, and never stood still."""
        waited_s = self._now_s if self.first_at_s is None else self.first_at_s
        return waited_s <= within_s and self.underrun_s < _GAP_S

    @property
    def _now_s(self) -> float:
        return time.perf_counter() - self._begun


class Peer(Protocol):
    """pids: of the processes that speak."""

    @property
    def rate(self) -> int: ...
    @property
    def pids(self) -> Sequence[int]: ...

    async def say(self, text: str, seed: int, heard: Playback) -> None:
        """Speak all of a text; a caller may leave before."""


class Served:
    """model: at a gateway of ours; None for Piper's server, whose files have a header."""

    def __init__(
        self,
        url: str,
        model: str | None,
        rate: int,
        pids: Sequence[int],
        http: aiohttp.ClientSession,
    ) -> None:
        self.rate, self.pids, self._model, self._http = rate, pids, model, http
        self._url = f"{url}/v1/audio/speech" if model else f"{url}/synthesize"

    async def say(self, text: str, seed: int, heard: Playback) -> None:
        body: dict[str, Any] = {"text": text}
        if self._model:
            body = {"input": text, "model": self._model, "response_format": "pcm", "seed": seed}
        waiting = 0 if self._model else _WAV_HEADER
        async with self._http.post(self._url, json=body) as answer:
            answer.raise_for_status()
            async for data in answer.content.iter_any():
                sound = max(0, len(data) - waiting)
                waiting = max(0, waiting - len(data))
                if samples := sound // 2:
                    heard.hear(samples)


class Packaged:
    """A package, asked over a pipe: a line of JSON is a text, the answers are the samples of each
    of its parts, and 0 behind them.
    """

    def __init__(self, process: asyncio.subprocess.Process, rate: int) -> None:
        self.rate, self.pids, self._process = rate, (process.pid,), process
        self._free = asyncio.Lock()

    async def say(self, text: str, seed: int, heard: Playback) -> None:
        del seed
        await self._free.acquire()
        # Who leaves does not end it: it is the next one's turn when all of the text is spoken.
        speaking = asyncio.ensure_future(self._said(text, heard))
        speaking.add_done_callback(self._ended)
        await asyncio.shield(speaking)

    def _ended(self, speaking: asyncio.Future[None]) -> None:
        self._free.release()
        if not speaking.cancelled():
            speaking.exception()

    async def _said(self, text: str, heard: Playback) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(text).encode() + b"\n")
        async with asyncio.timeout(120):
            while samples := json.loads(await self._process.stdout.readline() or "null"):
                heard.hear(samples)
        if samples is None:
            raise ConnectionError("the package's process ended")


@asynccontextmanager
async def packaged(command: Sequence[str | Path], rate: int) -> AsyncIterator[Packaged]:
    """The process, once it says that it is ready."""
    process = await asyncio.create_subprocess_exec(*map(str, command), stdin=-1, stdout=-1)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            if await process.stdout.readline() != b"ready\n":
                raise RuntimeError(f"{command} ended")
        yield Packaged(process, rate)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def text_of(words: int) -> str:
    return " ".join(_TEXT.split()[:words]) + "."


async def first_sound(peer: Peer, text: str, seed: int) -> float:
    """Seconds to the first sound of a text; what follows is made as well, or left to be."""
    heard = Playback(peer.rate)
    speaking = asyncio.ensure_future(peer.say(text, seed, heard))
    while heard.first_at_s is None and not speaking.done():
        await asyncio.wait([speaking], timeout=0.001)
    if isinstance(peer, Served):
        speaking.cancel()
    await asyncio.wait([speaking])
    if heard.first_at_s is None:
        raise RuntimeError("nothing was heard") from speaking.exception()
    return heard.first_at_s


class Trial(NamedTuple):
    """first_s: of each text that began. gaps_s: of each that was not heard without one. cores: that
    the processes took, in all.
    """

    number: int
    kept: bool
    first_s: list[float]
    gaps_s: list[float]
    cores: float

    @property
    def said(self) -> str:
        first = "none"
        if self.first_s:
            longest = max(self.first_s)
            first = f"{1000 * median(self.first_s):.0f} ms, longest {1000 * longest:.0f} ms"
        return (
            f"{self.number} listeners, {'kept' if self.kept else 'not kept'}: first sound p50"
            f" {first}, {len(self.gaps_s)} of {len(self.first_s)} with a gap"
            f" (the longest {1000 * max(self.gaps_s, default=0.0):.0f} ms), {self.cores:.2f} cores"
        )


async def listeners(peer: Peer, count: int, text: str, sound_s: float, within_s: float) -> Trial:
    """So many who begin one after the other, and ask for the next text when one is played; until
    one of them waits for longer than `within_s`, or hears a gap.
    """
    found: list[Playback] = []

    async def listen(number: int) -> None:
        await asyncio.sleep(number * sound_s / count)
        while True:
            found.append(heard := Playback(peer.rate))
            await peer.say(text, number, heard)
            await asyncio.sleep(heard.left_s)

    began, before_s = time.perf_counter(), cpu_s(peer.pids)
    everyone = [asyncio.ensure_future(listen(number)) for number in range(count)]
    kept = True
    while kept and time.perf_counter() - began < _STEADY * sound_s:
        done, _ = await asyncio.wait(everyone, timeout=0.05, return_when=asyncio.FIRST_EXCEPTION)
        kept = not done and all(heard.kept(within_s) for heard in found)
    cores = (cpu_s(peer.pids) - before_s) / (time.perf_counter() - began)
    for listener in everyone:
        listener.cancel()
    await asyncio.gather(*everyone, return_exceptions=True)
    firsts = sorted(heard.first_at_s for heard in found if heard.first_at_s is not None)
    gaps = [heard.underrun_s for heard in found if heard.underrun_s >= _GAP_S]
    return Trial(count, kept, firsts, gaps, cores)


async def settled(pids: Sequence[int]) -> None:
    """Wait until processes have done what was asked of them: a server may speak on for listeners
    who have left. Raises TimeoutError.
    """
    async with asyncio.timeout(_SETTLED_WITHIN_S):
        while True:
            before_s = cpu_s(pids)
            await asyncio.sleep(_IDLE_S)
            if cpu_s(pids) - before_s < _IDLE_CORES * _IDLE_S:
                return


def cpu_s(pids: Sequence[int]) -> float:
    """CPU seconds that processes have taken so far."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return float(sum(each.user + each.system for each in times))


async def most_listeners(
    peer: Peer, text: str, sound_s: float, within_s: float, first: int, trials: int
) -> AsyncIterator[Trial]:
    """A quarter more as long as all are kept, a quarter fewer as long as they are not, and then
    halfway between.
    """
    kept, failed, count = 0, 0, first
    for _ in range(trials):
        await settled(peer.pids)
        trial = await listeners(peer, count, text, sound_s, within_s)
        yield trial
        kept, failed = (count, failed) if trial.kept else (kept, count)
        step = max(1, round(count / 4))
        count = (kept + failed) // 2 if kept and failed else count + (step if kept else -step)
        if count < 1 or count == kept:
            return


def first_sounds(systems: Mapping[str, Mapping[int, float]], theme: Theme) -> Figure:
    """Seconds to the first sound by words of the text, a line a system."""
    with figure(theme, 6.6, 3.9) as fig:
        axes = fig.subplots()
        for (label, first_s), colour in zip(systems.items(), cycle(theme.series), strict=False):
            axes.plot(
                list(first_s),
                [1e3 * seconds for seconds in first_s.values()],
                marker="o",
                color=colour,
                label=label,
            )
        axes.set_title("Time to the first sound, alone")
        axes.set_xlabel("words of the text")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(milliseconds))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig
