"""First bytes per format, alone and among listeners: `python -m antiphon_bench.formats`.

Posts to /v1/audio/speech of a running stack and notes when the first body bytes arrive.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Annotated, Final

import aiohttp
import typer

FORMATS: Final = ("pcm", "wav", "mp3", "opus", "aac", "flac")
TEXT: Final = "The tide is coming in, and the boats along the quay begin to lift and turn."


async def first_bytes_s(session: aiohttp.ClientSession, url: str, response_format: str) -> float:
    """Seconds from the request to its first body bytes; the rest is read too."""
    body = {"input": TEXT, "response_format": response_format}
    began = time.perf_counter()
    async with session.post(f"{url}/v1/audio/speech", json=body) as response:
        response.raise_for_status()
        await response.content.readany()
        first_s = time.perf_counter() - began
        await response.content.read()
        return first_s


async def measure(url: str, response_format: str, listeners: int, turns: int) -> list[float]:
    """`listeners` at a time, each `turns` times; the first turn warms up and does not count."""
    found: list[float] = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as session:

        async def listen(number: int) -> None:
            await asyncio.sleep(0.25 * number)  # listeners do not begin at once
            for turn in range(turns + 1):
                first_s = await first_bytes_s(session, url, response_format)
                if turn:
                    found.append(first_s)

        await asyncio.gather(*(listen(number) for number in range(listeners)))
    return found


def main(
    url: Annotated[str, typer.Option()] = "http://127.0.0.1:8000",
    listeners: Annotated[list[int], typer.Option()] = [1, 12],  # noqa: B006 -- typer reads it
    turns: Annotated[int, typer.Option()] = 10,
    formats: Annotated[list[str] | None, typer.Option()] = None,
) -> None:
    """Print a table of medians in milliseconds."""
    if formats is None:
        formats = list(FORMATS)
    print("| format | " + " | ".join(f"{n} listening" for n in listeners) + " |")
    print("| --- |" + " --- |" * len(listeners))
    for response_format in formats:
        medians = [
            statistics.median(asyncio.run(measure(url, response_format, n, turns)))
            for n in listeners
        ]
        print(f"| {response_format} | " + " | ".join(f"{1e3 * m:.0f}" for m in medians) + " |")


if __name__ == "__main__":
    typer.run(main)
