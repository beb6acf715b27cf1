"""First bytes per format, alone and among listeners: `antiphon bench formats`.

Posts to /v1/audio/speech of a running stack and notes when the first body bytes arrive. A listener
asks anew when he has heard what he got.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Annotated, Final

import aiohttp
import psutil
import typer

FORMATS: Final = ("pcm", "wav", "mp3", "opus", "aac", "flac")
TEXT: Final = "The tide is coming in, and the boats along the quay begin to lift and turn."


async def first_bytes_s(
    session: aiohttp.ClientSession, url: str, response_format: str, speech_s: float
) -> float:
    """Seconds from the request to its first body bytes; returns when the rest was heard too."""
    body = {"input": TEXT, "response_format": response_format, "seed": 7}
    began = time.perf_counter()
    async with session.post(f"{url}/v1/audio/speech", json=body) as response:
        response.raise_for_status()
        await response.content.readany()
        first_s = time.perf_counter() - began
        await response.content.read()
    await asyncio.sleep(max(0.0, began + first_s + speech_s - time.perf_counter()))
    return first_s


async def measure(
    url: str, response_format: str, listeners: int, turns: int, speech_s: float
) -> list[float]:
    """`listeners` at a time, each `turns` times; the first turn warms up and does not count."""
    found: list[float] = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as session:

        async def listen(number: int) -> None:
            await asyncio.sleep(speech_s * number / listeners)  # they do not begin at once
            for turn in range(turns + 1):
                first_s = await first_bytes_s(session, url, response_format, speech_s)
                if turn:
                    found.append(first_s)

        await asyncio.gather(*(listen(number) for number in range(listeners)))
    return found


def main(
    url: Annotated[str, typer.Option()] = "http://127.0.0.1:8000",
    listeners: Annotated[list[int], typer.Option()] = [1, 12],  # noqa: B006 -- typer reads it
    turns: Annotated[int, typer.Option()] = 10,
    formats: Annotated[list[str] | None, typer.Option()] = None,
    pid: Annotated[int | None, typer.Option(help="The gateway's: its CPU time is told too")] = None,
) -> None:
    """Print a table of medians in milliseconds."""
    if formats is None:
        formats = list(FORMATS)
    heads = [f"{n} listening" for n in listeners] + (["CPU ms a second of audio"] if pid else [])
    print("| format | " + " | ".join(heads) + " |")
    print("| --- |" + " --- |" * len(heads))
    speech_s = asyncio.run(duration_s(url))
    for response_format in formats:
        before_s = cpu_s(pid)
        found = [asyncio.run(measure(url, response_format, n, turns, speech_s)) for n in listeners]
        cells = [f"{1e3 * statistics.median(times):.0f}" for times in found]
        if pid:
            spoken_s = speech_s * sum(n * (turns + 1) for n in listeners)
            cells.append(f"{1e3 * (cpu_s(pid) - before_s) / spoken_s:.1f}")
        print(f"| {response_format} | " + " | ".join(cells) + " |")


async def duration_s(url: str) -> float:
    """Seconds of speech that one request is."""
    body = {"input": TEXT, "response_format": "pcm", "seed": 7}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/audio/speech", json=body) as response,
    ):
        return len(await response.read()) / 2 / int(response.headers["x-sample-rate"])


def cpu_s(pid: int | None) -> float:
    """CPU seconds that a process has used."""
    if pid is None:
        return 0.0
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    typer.run(main)
