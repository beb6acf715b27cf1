"""Piper's own server, Piper in process, and Piper here: first sound, and how many can listen.

`antiphon bench piper --ours URL --server URL --python PYTHON --voice VOICE.onnx`. Ours is a stack
that serves the voice as `--model`; the server is `python -m piper.http_server` with the same file,
and PYTHON has the package piper-tts. Both are started beforehand, and neither is part of this
package: piper-tts is under the GPL.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final, Protocol

import aiohttp
import typer
from rich.console import Console
from rich.table import Table

WORDS: Final = 8, 25, 60
_WAV_HEADER: Final = 44
_RATE: Final = 24_000, 22_050  # of ours as it is asked for, and of the voice
_FIRST_S: Final = 1.0
_TEXT: Final = (
    "The morning train was late again so we walked along the river to the old market where a man"
    " was selling apples and bread and my sister bought a small blue cup that she still keeps on"
    " the shelf above her desk next to a letter that our father wrote when he was young and lived"
    " in a house by the sea with two dogs"
)
_IN_PROCESS: Final = """
import json, sys, time
from piper import PiperVoice
voice = PiperVoice.load(sys.argv[1])
for line in sys.stdin:
    begun = time.perf_counter()
    first = 0.0
    samples = 0
    for chunk in voice.synthesize(json.loads(line)):
        first = first or time.perf_counter() - begun
        samples += len(chunk.audio_int16_array)
    print(json.dumps([first, time.perf_counter() - begun, samples]), flush=True)
"""


@dataclass(frozen=True)
class Heard:
    """Of one request: seconds to the first sound, of playback that stood still, of sound."""

    first_s: float
    gap_s: float
    sound_s: float


class Peer(Protocol):
    name: str

    async def say(self, text: str, seed: int) -> Heard:
        """Speak, and listen as a player does."""


class Served:
    """A server that is told a JSON body and answers with 16-bit sound."""

    def __init__(self, name: str, url: str, model: str | None, http: aiohttp.ClientSession) -> None:
        self.name, self._model, self._http = name, model, http
        self._url = f"{url}/v1/audio/speech" if model else f"{url}/synthesize"
        self._rate, self._header = (_RATE[0], 0) if model else (_RATE[1], _WAV_HEADER)

    async def say(self, text: str, seed: int) -> Heard:
        body: dict[str, Any] = {"text": text}
        if self._model:
            body = {"input": text, "model": self._model, "response_format": "pcm", "seed": seed}
        begun, first_s, gap_s, got = time.perf_counter(), 0.0, 0.0, -self._header
        async with self._http.post(self._url, json=body) as answer:
            answer.raise_for_status()
            async for data in answer.content.iter_any():
                now_s = time.perf_counter() - begun
                if got <= 0 < got + len(data):
                    first_s = now_s
                elif got > 0:
                    gap_s = max(gap_s, now_s - first_s - got / 2 / self._rate)
                got += len(data)
        return Heard(first_s, max(0.0, gap_s), got / 2 / self._rate)


class InProcess:
    """The package, in a process of its own that is asked over a pipe."""

    name = "Piper in process"

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def say(self, text: str, seed: int) -> Heard:
        del seed
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(text).encode() + b"\n")
        async with asyncio.timeout(60):
            first_s, _, samples = json.loads(await self._process.stdout.readline())
        return Heard(first_s, 0.0, samples / _RATE[1])


@asynccontextmanager
async def in_process(python: Path, voice: Path) -> AsyncIterator[InProcess]:
    """The package in `python`, with the voice loaded."""
    process = await asyncio.create_subprocess_exec(
        str(python), "-c", _IN_PROCESS, str(voice), stdin=-1, stdout=-1
    )
    try:
        yield InProcess(process)
    finally:
        process.terminate()
        await process.wait()


def text_of(words: int) -> str:
    return " ".join(_TEXT.split()[:words]) + "."


async def first_sounds(peers: Sequence[Peer], rounds: int) -> dict[tuple[str, int], list[float]]:
    """Seconds to the first sound by peer and words, each in turn."""
    found: dict[tuple[str, int], list[float]] = {}
    for seed in range(rounds + 1):
        for words in WORDS:
            for peer in peers:
                heard = await peer.say(text_of(words), seed)
                if seed:  # the first round warms up
                    found.setdefault((peer.name, words), []).append(heard.first_s)
    return found


async def listeners(peer: Peer, count: int, seconds: float, sound_s: float) -> list[Heard]:
    """So many who begin one after the other, and ask for the next text when one is played."""

    async def listen(number: int) -> list[Heard]:
        await asyncio.sleep(number * sound_s / count)
        ends, heard = time.perf_counter() + seconds, list[Heard]()
        while time.perf_counter() < ends:
            begun = time.perf_counter()
            one = await peer.say(text_of(25), number)
            heard.append(one)
            left_s = one.first_s + one.gap_s + one.sound_s - (time.perf_counter() - begun)
            await asyncio.sleep(max(0.0, left_s))
        return heard

    return [one for each in await asyncio.gather(*map(listen, range(count))) for one in each]


def kept(heard: Sequence[Heard]) -> bool:
    """Whether all heard something within a second, and none a gap."""
    return all(one.first_s < _FIRST_S and one.gap_s < 0.001 for one in heard)


async def _measure(
    ours: str, server: str, model: str, python: Path, voice: Path, rounds: int, counts: list[int]
) -> None:
    console = Console()
    timeout = aiohttp.ClientTimeout(total=120)
    async with (
        aiohttp.ClientSession(timeout=timeout) as http,
        in_process(python, voice) as package,
    ):
        here = Served("Piper here", ours, model, http)
        theirs = Served("Piper's server", server, None, http)
        if rounds:
            _show_first(console, await first_sounds([theirs, package, here], rounds))
        sound_s = (await theirs.say(text_of(25), 0)).sound_s
        for count in counts:
            for peer in (theirs, here):
                heard = await listeners(peer, count, sound_s, sound_s)
                firsts = sorted(one.first_s for one in heard)
                gaps = sum(one.gap_s >= 0.001 for one in heard)
                console.print(
                    f"{peer.name}: {count} listeners, {'kept' if kept(heard) else 'not kept'}:"
                    f" first sound p50 {1000 * median(firsts):.0f} ms, longest"
                    f" {1000 * firsts[-1]:.0f} ms, {gaps} of {len(heard)} with a gap"
                )


def _show_first(console: Console, found: dict[tuple[str, int], list[float]]) -> None:
    table = Table("first sound, p50 (ms)", *(f"{words} words" for words in WORDS))
    for name in dict.fromkeys(name for name, _ in found):
        table.add_row(name, *(f"{1000 * median(found[name, words]):.0f}" for words in WORDS))
    console.print(table)


def main(
    ours: Annotated[str, typer.Option(help="A gateway's address.")],
    server: Annotated[str, typer.Option(help="Of Piper's HTTP server.")],
    python: Annotated[Path, typer.Option(help="With piper-tts.")],
    voice: Annotated[Path, typer.Option(help="The voice's file.")],
    model: Annotated[str, typer.Option(help="The voice's name at the gateway.")] = "joe",
    rounds: Annotated[int, typer.Option(help="Of first sounds.")] = 7,
    counts: Annotated[str, typer.Option(help="Listeners to try, as 8,16.")] = "",
) -> None:
    """Measure all three in turn."""
    tried = [int(count) for count in counts.split(",") if count]
    asyncio.run(_measure(ours, server, model, python, voice, rounds, tried))


if __name__ == "__main__":
    typer.run(main)
