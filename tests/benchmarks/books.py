"""A book as a job, the same text request by request, and listeners beside a book.

    python -m tests.benchmarks.books --url http://127.0.0.1:8000

Measures a running stack that has no other load. The job's time is from its being posted until its
sound could be fetched. Listeners come at random times, with and without a book in work.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp

from antiphon_bench.config import Poisson, RunConfig, Target
from antiphon_bench.results import Summary
from antiphon_bench.run import run
from antiphon_bench.texts import LONG, MEDIUM, SHORT

_JOBS: Final = "/v1/audio/jobs"
_LOOK_S: Final = 0.1
_SEED: Final = 11
_PARAGRAPH: Final = 3
# More than is spoken while listeners are measured.
_ENDLESS_WORDS: Final = 60_000
_BYTES_PER_SAMPLE: Final = 2

T = TypeVar("T")


def paragraphs(words: int) -> list[str]:
    """At least so many words, a few sentences a paragraph."""
    sentences, made, said = [*MEDIUM, *LONG, *SHORT], list[str](), 0
    while said < words:
        at = _PARAGRAPH * len(made)
        some = [sentences[(at + n) % len(sentences)] for n in range(_PARAGRAPH)]
        made.append(" ".join(some))
        said += len(made[-1].split())
    return made


async def whole_job(session: aiohttp.ClientSession, text: list[str]) -> dict[str, float]:
    """Seconds of sound of a job, and what it took."""
    began_s = time.perf_counter()
    job = await _begin(session, text)
    while (card := await _card(session, job))["status"] != "done":
        if card["status"] == "failed":
            raise RuntimeError(f"the job failed: {card['error']}")
        await asyncio.sleep(_LOOK_S)
    took_s = time.perf_counter() - began_s
    await session.delete(f"{_JOBS}/{job}")
    return _speed(card["audio_seconds"], took_s)


async def one_by_one(session: aiohttp.ClientSession, text: list[str]) -> dict[str, float]:
    """The same of requests, each of which begins when the one before it is over."""
    began_s, audio_s = time.perf_counter(), 0.0
    for paragraph in text:
        body = {"input": paragraph, "response_format": "pcm", "seed": _SEED}
        async with session.post("/v1/audio/speech", json=body) as answer:
            answer.raise_for_status()
            rate = int(answer.headers["x-sample-rate"])
            audio_s += len(await answer.read()) / _BYTES_PER_SAMPLE / rate
    return _speed(audio_s, time.perf_counter() - began_s)


def _speed(audio_s: float, took_s: float) -> dict[str, float]:
    return {
        "audio_s": round(audio_s, 1),
        "took_s": round(took_s, 1),
        "hours_an_hour": round(audio_s / took_s, 2),
    }


async def _begin(session: aiohttp.ClientSession, text: list[str]) -> str:
    body = {"input": "\n\n".join(text), "response_format": "wav", "seed": _SEED}
    body |= {"paragraph_pause_s": 0}
    async with session.post(_JOBS, json=body) as answer:
        answer.raise_for_status()
        return str((await answer.json())["id"])


async def _card(session: aiohttp.ClientSession, job: str) -> dict[str, Any]:
    async with session.get(f"{_JOBS}/{job}") as answer:
        answer.raise_for_status()
        return dict(await answer.json())


async def _with(url: str, ask: Callable[[aiohttp.ClientSession], Awaitable[T]]) -> T:
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(url, timeout=timeout) as session:
        return await ask(session)


async def _end(session: aiohttp.ClientSession, job: str) -> dict[str, Any]:
    card = await _card(session, job)
    await session.delete(f"{_JOBS}/{job}")
    return card


def listeners(url: str, rate: float, duration_s: float, warmup_s: float) -> dict[str, Any]:
    """First sounds and gaps of listeners who come at `rate` a second."""
    with tempfile.TemporaryDirectory(prefix="books-") as folder:
        config = RunConfig(
            target=Target(url=url, protocol="ws"),
            arrivals=Poisson(rate=rate),
            texts="mixed",
            warmup_s=warmup_s,
            duration_s=duration_s,
            out=Path(folder),
        )
        return _heard(run(config))


def _heard(summary: Summary) -> dict[str, Any]:
    first = summary.quantiles.get("ttfp_s")
    return {
        "offered": summary.offered,
        "ok": summary.ok,
        "refused": summary.refused,
        "failed": summary.failed,
        "viable": summary.viable_streams,
        "underrun_s": round(summary.underrun_s, 2),
        "ttfp_p50_ms": round(1000 * first.p50) if first else None,
        "ttfp_p95_ms": round(1000 * first.p95) if first else None,
        "ttfp_max_ms": round(1000 * first.max) if first else None,
    }


def beside_a_book(url: str, rate: float, duration_s: float, warmup_s: float) -> dict[str, Any]:
    """The same listeners while a book is spoken, and how much of it was."""
    job = asyncio.run(_with(url, lambda session: _begin(session, paragraphs(_ENDLESS_WORDS))))
    try:
        heard = listeners(url, rate, duration_s, warmup_s)
    finally:
        card = asyncio.run(_with(url, lambda session: _end(session, job)))
    return {**heard, "book_audio_s": card["audio_seconds"]}


def main() -> None:
    """Print what was measured, a JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--words", type=int, default=1500, help="of the text; 0: none is spoken")
    parser.add_argument("--rate", type=float, default=0.5, help="listeners a second; 0: none")
    parser.add_argument("--duration", type=float, default=60.0, help="of each load, in seconds")
    parser.add_argument("--warmup", type=float, default=10.0, help="before it, in seconds")
    options: Any = parser.parse_args()
    if options.words:
        text = paragraphs(options.words)
        _say("job", asyncio.run(_with(options.url, lambda s: whole_job(s, text))))
        _say("request by request", asyncio.run(_with(options.url, lambda s: one_by_one(s, text))))
    if options.rate:
        load = (options.url, options.rate, options.duration, options.warmup)
        _say("listeners alone", listeners(*load))
        _say("listeners beside a book", beside_a_book(*load))


def _say(what: str, found: dict[str, Any]) -> None:
    print(json.dumps({"measured": what, **found}), flush=True)


if __name__ == "__main__":
    main()
