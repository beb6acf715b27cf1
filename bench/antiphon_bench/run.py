"""Runs loads, in one process or several, and writes what was seen."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime

import uvloop

from antiphon_bench.config import RunConfig
from antiphon_bench.driver import Part, Share, drive
from antiphon_bench.health import health
from antiphon_bench.results import RequestResult, Summary, write_json, write_lines
from antiphon_bench.stats import summarise

_START_S = 120.0  # for the slowest interpreter to start and import


def run(config: RunConfig) -> Summary:
    """Runs `config`, writes requests.jsonl and summary.json into its folder; blocks."""
    started = _now()
    parts = [_part(config, Share())] if config.processes == 1 else _several([config])[0]
    return _written(config, parts, started)


def run_together(configs: Sequence[RunConfig]) -> list[Summary]:
    """Runs all `configs` at the same time, each in processes of its own; blocks."""
    started = _now()
    parts = _several(configs)
    return [_written(*one, started) for one in zip(configs, parts, strict=True)]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


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
    return summarise(config, results, health([part.watch for part in parts], lags_s), started)


def _several(configs: Sequence[RunConfig]) -> list[list[Part]]:
    """The parts of every configuration; all processes begin when the last one has started."""
    context, processes = multiprocessing.get_context("spawn"), sum(c.processes for c in configs)
    everyone = context.Barrier(processes)
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=everyone.wait, initargs=(_START_S,)
    ) as pool:
        futures = [
            [
                pool.submit(_part, config, Share(i, config.processes))
                for i in range(config.processes)
            ]
            for config in configs
        ]
        return [[future.result() for future in parts] for parts in futures]


def _part(config: RunConfig, share: Share) -> Part:
    gc.collect()
    gc.freeze()  # collecting start-up objects again and again would show as lag
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(drive(config, share))
