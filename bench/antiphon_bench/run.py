"""Runs loads, in one process or several: starts requests when they are due and records them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import multiprocessing
import time
from collections.abc import Awaitable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice

import uvloop

from antiphon_bench.arrivals import ScheduledRequest, closed_loop, open_loop
from antiphon_bench.clients import Failure, Observation, SpeechClient, open_client
from antiphon_bench.clients.http import write_wav
from antiphon_bench.config import Closed, RunConfig
from antiphon_bench.results import Outcome, RequestResult, Summary, write_json, write_lines
from antiphon_bench.stats import LagMeter, Watch, health, listening_span, summarise

# A user who was turned away and not told when to come asks again, but not in a busy loop.
_RETRY_S = 0.5


@dataclass(frozen=True)
class Part:
    """Results of one process of the generator."""

    results: list[RequestResult]
    watch: Watch


@dataclass(frozen=True)
class Share:
    """Which jobs are this process's own: every `of`-th, from `index` on."""

    index: int = 0
    of: int = 1


@dataclass
class Driver:
    """One process's part of a run; `origin` is the perf_counter time of the run's second zero."""

    config: RunConfig
    client: SpeechClient
    origin: float
    results: list[RequestResult] = field(default_factory=list)
    running: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def until_s(self) -> float:
        """End of the measured window."""
        return self.config.warmup_s + self.config.duration_s

    def now_s(self) -> float:
        """Time on the run's clock."""
        return time.perf_counter() - self.origin

    async def open_loop(self, jobs: list[ScheduledRequest]) -> None:
        """Starts each job at its time, whatever became of those before."""
        for job in jobs:
            await asyncio.sleep(job.at_s - self.now_s())
            self._spawn(self.request(job, job.at_s))

    async def closed_loop(self, share: Share) -> None:
        """Keeps this process's users busy until the window ends."""
        arrivals = self.config.arrivals
        assert isinstance(arrivals, Closed)
        jobs = islice(closed_loop(self.config), share.index, None, share.of)
        users = range(share.index, arrivals.concurrency, share.of)
        # All at once would measure one stampede; the warm-up is for spreading out.
        spread_s = self.config.warmup_s / arrivals.concurrency

        async def user(first_at_s: float) -> None:
            due_s = first_at_s
            while due_s < self.until_s:
                await asyncio.sleep(due_s - self.now_s())
                result = await self.request(next(jobs), due_s)
                heard = listening_span(result) if arrivals.listen else None
                due_s = max(self.now_s(), heard[1] if heard else 0.0)
                if result.outcome != "ok":
                    retry_s = None if arrivals.rude else result.retry_after_s
                    due_s += _RETRY_S if retry_s is None else retry_s

        for number in users:
            self._spawn(user(number * spread_s))
        await asyncio.sleep(self.until_s - self.now_s())

    async def drain(self) -> None:
        """Waits for what still runs, for a bounded time; the rest counts as unfinished."""
        if self.running:
            _, late = await asyncio.wait(self.running, timeout=self.config.drain_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def request(self, job: ScheduledRequest, due_s: float) -> RequestResult:
        """Runs one request and records it, even when it is cancelled."""
        started_s = self.now_s()
        seen = Observation(keep_audio=self.config.wav)
        failure: Failure | None = None
        try:
            await self.client.speak(job, seen)
        except Failure as error:
            failure = error
        except asyncio.CancelledError:
            failure = Failure("unfinished", "still running when the drain time was over")
            raise
        finally:
            result = self._record(job, due_s, started_s, seen, failure)
        if seen.pcm and seen.account and failure is None:
            path = self.config.out / "wav" / f"{job.index:05d}.wav"
            await asyncio.to_thread(write_wav, path, bytes(seen.pcm), seen.account.sample_rate)
        return result

    def _spawn(self, request: Awaitable[object]) -> None:
        async def run() -> None:
            await request

        task = asyncio.create_task(run())
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    def _record(
        self,
        job: ScheduledRequest,
        due_s: float,
        started_s: float,
        seen: Observation,
        failure: Failure | None,
    ) -> RequestResult:
        outcome: Outcome = "ok"
        if failure is not None:
            outcome = "refused" if failure.refused else "error"
        account = seen.account
        e2e_s = seen.now_s() if seen.ended_s is None else seen.ended_s
        result = RequestResult(
            index=job.index,
            scheduled_s=due_s,
            lag_s=started_s - due_s,
            measured=self.config.warmup_s <= started_s < self.until_s,
            text=job.text,
            voice=job.voice,
            outcome=outcome,
            error=failure.kind if failure else None,
            message=failure.message if failure else None,
            retry_after_s=failure.retry_after_s if failure else None,
            request_id=seen.request_id,
            sample_rate=account.sample_rate if account else None,
            connect_s=seen.connect_s,
            ttfb_s=seen.ttfb_s,
            ttfp_s=account.first_at_s if account else None,
            ttfa_s=seen.ttfa_s,
            e2e_s=e2e_s,
            audio_s=account.duration_s if account else 0.0,
            rtf=e2e_s / account.duration_s if account and account.samples else None,
            chunks=account.chunks if account else 0,
            viable_chunks=account.viable_chunks if account else 0,
            viable=account.viable if account and account.samples else False,
            min_slack_s=account.min_slack_s if account else None,
            underruns=account.underruns if account else 0,
            underrun_s=account.underrun_s if account else 0.0,
            server=seen.server,
            trace_s=seen.trace_s,
            trace_samples=seen.trace_samples,
        )
        self.results.append(result)
        return result


async def drive(
    config: RunConfig,
    share: Share = Share(),
) -> Part:
    """Runs this process's part of `config`."""
    async with open_client(config.target) as client:
        jobs = [] if isinstance(config.arrivals, Closed) else open_loop(config)
        jobs = jobs[share.index :: share.of]
        driver = Driver(config, client, time.perf_counter())
        meter = LagMeter()
        metering = asyncio.create_task(meter.run())
        if isinstance(config.arrivals, Closed):
            await driver.closed_loop(share)
        else:
            await driver.open_loop(jobs)
        await asyncio.sleep(driver.until_s - driver.now_s())
        watch = meter.watch()
        metering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await metering
        await driver.drain()
    return Part(results=driver.results, watch=watch)


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
