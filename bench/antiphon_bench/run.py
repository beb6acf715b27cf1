"""Runs loads, in one process or several, and writes what was seen."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime

import uvloop

from antiphon_bench.config import Arrivals, Closed, Gamma, Queued, RunConfig
from antiphon_bench.driver import Part, Share, drive
from antiphon_bench.health import health
from antiphon_bench.results import RequestResult, Summary, write_json, write_lines
from antiphon_bench.stats import summarise

_SPAWN_S = 3.0  # enough for an interpreter to start and import; all processes wait for it


def run(config: RunConfig) -> Summary:
    """Runs `config`, writes requests.jsonl and summary.json into its folder; blocks."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    parts = _one(config) if config.processes == 1 else _several([config])[0]
    return _written(config, parts, started)


def run_together(configs: Sequence[RunConfig]) -> list[Summary]:
    """Runs all `configs` at the same time, each in processes of its own; blocks."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    parts = _several(configs)
    return [_written(*one, started) for one in zip(configs, parts, strict=True)]


def _written(config: RunConfig, parts: list[Part], started: str) -> Summary:
    results = sorted((r for part in parts for r in part.results), key=lambda r: r.started_s)
    summary = summary_of(config, results, parts, started)
    write_lines(config.out / "requests.jsonl", results)
    write_json(config.out / "summary.json", summary)
    return summary


def summary_of(
    config: RunConfig, results: list[RequestResult], parts: list[Part], started: str
) -> Summary:
    """The figures of a run whose parts are done."""
    lags_s = [r.lag_s for r in results if r.measured]
    return summarise(
        results,
        window=window(config, results),
        generator=health([part.watch for part in parts], lags_s),
        label=config.label,
        url=config.target.url,
        protocol=config.target.protocol,
        arrivals=describe(config.arrivals),
        rate=offered_rate(config.arrivals),
        texts=config.texts,
        seed=config.seed,
        started=started,
    )


def window(config: RunConfig, results: Sequence[RequestResult]) -> tuple[float, float]:
    """[start, end) of what is measured, on the run's clock."""
    end_s = config.warmup_s + config.duration_s
    if isinstance(config.arrivals, Queued):
        end_s = max((r.started_s + r.e2e_s for r in results), default=end_s)
    return config.warmup_s, end_s


def describe(arrivals: Arrivals) -> str:
    """The arrivals in words."""
    if isinstance(arrivals, Closed):
        what = "listening" if arrivals.listen else "back-to-back"
        return f"closed loop, {arrivals.concurrency} {what} users"
    if isinstance(arrivals, Gamma):
        return f"gamma bursts (cv {arrivals.cv:g}), {arrivals.rate:g} requests/s"
    if isinstance(arrivals, Queued):
        return f"{arrivals.requests} requests at once"
    return f"Poisson, {arrivals.rate:g} requests/s"


def offered_rate(arrivals: Arrivals) -> float:
    """Requests/s of an open loop, users of a closed one, requests of a queue."""
    if isinstance(arrivals, Closed):
        return float(arrivals.concurrency)
    return float(arrivals.requests) if isinstance(arrivals, Queued) else arrivals.rate


def _one(config: RunConfig) -> list[Part]:
    return [_part(config, Share(), time.time())]


def _several(configs: Sequence[RunConfig]) -> list[list[Part]]:
    """The parts of every configuration; all processes begin at the same moment."""
    begin = time.time() + _SPAWN_S
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(sum(c.processes for c in configs), mp_context=context) as pool:
        futures = [
            [
                pool.submit(_part, config, Share(index, config.processes), begin)
                for index in range(config.processes)
            ]
            for config in configs
        ]
        return [[future.result() for future in shares] for shares in futures]


def _part(config: RunConfig, share: Share, begin: float) -> Part:
    gc.collect()
    gc.freeze()  # collecting start-up objects again and again would show as lag
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(drive(config, share=share, wait_s=lambda: begin - time.time()))
