"""Statistics of a run: of its requests, and of the generator that watches itself."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from antiphon_bench.config import RunConfig
from antiphon_bench.results import GeneratorHealth, Quantiles, RequestResult, Summary, Sweep

_TIMES = ("connect_s", "ttfb_s", "ttfp_s", "ttfa_s", "rtf", "min_slack_s")


def percentile(ordered: Sequence[float], share: float) -> float:
    """Value below which `share` (0..1) of an ascending sequence lies, linearly interpolated."""
    if not ordered:
        raise ValueError("a percentile needs at least one value")
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def quantiles(values: Iterable[float]) -> Quantiles | None:
    """Distribution of `values`, or None when there are none."""
    ordered = sorted(values)
    if not ordered:
        return None
    return Quantiles(
        count=len(ordered),
        mean=math.fsum(ordered) / len(ordered),
        min=ordered[0],
        p10=percentile(ordered, 0.10),
        p50=percentile(ordered, 0.50),
        p90=percentile(ordered, 0.90),
        p95=percentile(ordered, 0.95),
        p99=percentile(ordered, 0.99),
        max=ordered[-1],
    )


def share(part: int, whole: int) -> float | None:
    """part / whole, or None where there is no whole."""
    return part / whole if whole else None


def concurrency(
    spans: Iterable[tuple[float, float]], start: float, end: float
) -> tuple[float, int]:
    """Mean and peak number of [from, to) spans alive inside the window [start, end)."""
    inside = [(max(a, start), min(b, end)) for a, b in spans if b > start and a < end and b > a]
    mean = math.fsum(b - a for a, b in inside) / (end - start)
    # At one instant an end sorts before a start: back to back is one stream, not two.
    edges = sorted([(a, 1) for a, _ in inside] + [(b, -1) for _, b in inside])
    alive = peak = 0
    for _, step in edges:
        alive += step
        peak = max(peak, alive)
    return mean, peak


def audio_in_window(results: Iterable[RequestResult], start: float, end: float) -> float:
    """Seconds of audio that arrived inside [start, end) of the run's clock."""
    return math.fsum(
        samples / r.sample_rate
        for r in results
        if r.sample_rate
        for at, samples in zip(r.trace_s, r.trace_samples, strict=True)
        if start <= r.started_s + at < end
    )


def listening_span(result: RequestResult) -> tuple[float, float] | None:
    """From the first sample heard to the last, on the run's clock."""
    if result.ttfp_s is None:
        return None
    heard_from = result.started_s + result.ttfp_s
    return heard_from, heard_from + result.audio_s + result.underrun_s


def latency_quantiles(measured: Sequence[RequestResult]) -> dict[str, Quantiles]:
    """Distributions over completed requests, and `refused_s` over refused ones."""
    done = [r for r in measured if r.outcome == "ok"]
    columns = {name: [getattr(r, name) for r in done] for name in _TIMES}
    columns["e2e_s"] = [r.e2e_s for r in done]
    columns["refused_s"] = [r.e2e_s for r in measured if r.outcome == "refused"]
    return _distributions({k: [v for v in c if v is not None] for k, c in columns.items()})


def server_quantiles(measured: Iterable[RequestResult]) -> dict[str, Quantiles]:
    """Distributions of what the server says about its own stages."""
    columns: dict[str, list[float]] = {}
    for result in measured:
        for name, value in result.server.items():
            columns.setdefault(name, []).append(value)
    return _distributions(dict(sorted(columns.items())))


def _distributions(columns: Mapping[str, Sequence[float]]) -> dict[str, Quantiles]:
    """Of those that have values."""
    found = {name: quantiles(values) for name, values in columns.items()}
    return {name: value for name, value in found.items() if value is not None}


def summarise(
    config: RunConfig, results: Sequence[RequestResult], generator: GeneratorHealth, started: str
) -> Summary:
    """All figures of one run that began at `started`."""
    start, end = config.warmup_s, config.warmup_s + config.duration_s
    measured = [r for r in results if r.measured]
    outcomes = Counter(r.outcome for r in measured)
    accepted = [r for r in measured if r.outcome != "refused"]
    viable = sum(1 for r in accepted if r.outcome == "ok" and r.viable)
    chunks = sum(r.chunks for r in accepted)
    audio_s = audio_in_window(results, start, end)
    spans = [(r.started_s, r.started_s + r.e2e_s) for r in results if r.outcome != "refused"]
    mean_streams, peak_streams = concurrency(spans, start, end)
    heard = [span for r in results if (span := listening_span(r)) is not None]
    return Summary(
        label=config.label,
        url=config.target.url,
        protocol=config.target.protocol,
        arrivals=str(config.arrivals),
        rate=config.arrivals.load,
        texts=config.texts,
        seed=config.seed,
        started=started,
        duration_s=end - start,
        offered=len(measured),
        ok=outcomes["ok"],
        refused=outcomes["refused"],
        failed=outcomes["error"],
        errors=dict(Counter(r.error for r in measured if r.error is not None).most_common()),
        viable_streams=viable,
        viable_stream_share=share(viable, len(accepted)),
        served_viable_share=share(viable, len(measured)),
        chunks=chunks,
        viable_chunk_share=share(sum(r.viable_chunks for r in accepted), chunks),
        underruns=sum(r.underruns for r in accepted),
        underrun_s=math.fsum(r.underrun_s for r in accepted),
        audio_s=audio_s,
        audio_s_per_s=audio_s / (end - start),
        mean_streams=mean_streams,
        peak_streams=peak_streams,
        peak_listeners=concurrency(heard, start, end)[1],
        quantiles=latency_quantiles(measured),
        server=server_quantiles(measured),
        generator=generator,
    )


def meets(summary: Summary, *, ttfp_p95_s: float, viable_share: float) -> bool:
    """True when this load is still goodput: prompt, and (nearly) no listener heard a gap.

    Refused and failed requests count as not viable: turning people away is not goodput.
    """
    ttfp = summary.quantiles.get("ttfp_s")
    served = summary.served_viable_share
    return (
        ttfp is not None
        and served is not None
        and ttfp.p95 <= ttfp_p95_s
        and served >= viable_share
    )


def goodput(points: Iterable[Summary], *, ttfp_p95_s: float, viable_share: float) -> float | None:
    """Highest rate met with every lower measured rate met as well; None when none is."""
    best = None
    for point in sorted(points, key=lambda p: p.rate):
        if not meets(point, ttfp_p95_s=ttfp_p95_s, viable_share=viable_share):
            break
        best = point.rate
    return best


def sweep_of(
    label: str, points: Iterable[Summary], *, ttfp_p95_s: float, viable_share: float
) -> Sweep:
    """The points in order of rate, with their goodput."""
    ordered = sorted(points, key=lambda p: p.rate)
    return Sweep(
        label=label,
        ttfp_p95_s=ttfp_p95_s,
        viable_share=viable_share,
        goodput=goodput(ordered, ttfp_p95_s=ttfp_p95_s, viable_share=viable_share),
        points=ordered,
    )


_TICK_S = 0.01


@dataclass(frozen=True)
class Watch:
    """What one process saw of itself."""

    loop_lags_s: tuple[float, ...]
    cpu_share: float


class LagMeter:
    """Asks to be woken every 10 ms and notes how late that happens, while it runs."""

    def __init__(self) -> None:
        self._lags_s: list[float] = []
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    async def run(self) -> None:
        """Measures until cancelled."""
        while True:
            due = time.perf_counter() + _TICK_S
            await asyncio.sleep(_TICK_S)
            self._lags_s.append(max(0.0, time.perf_counter() - due))

    def watch(self) -> Watch:
        """Figures since the meter was made."""
        wall_s = time.perf_counter() - self._wall
        return Watch(tuple(self._lags_s), (time.process_time() - self._cpu) / wall_s)


def health(watches: Sequence[Watch], dispatch_lags_s: Sequence[float]) -> GeneratorHealth:
    """One account for all processes of a generator."""
    loop_lags = sorted(lag for watch in watches for lag in watch.loop_lags_s) or [0.0]
    dispatch = sorted(dispatch_lags_s) or [0.0]
    return GeneratorHealth(
        processes=len(watches),
        cpu_share=max(watch.cpu_share for watch in watches),
        loop_lag_p50_s=percentile(loop_lags, 0.50),
        loop_lag_p99_s=percentile(loop_lags, 0.99),
        loop_lag_max_s=loop_lags[-1],
        dispatch_lag_p99_s=percentile(dispatch, 0.99),
        dispatch_lag_max_s=dispatch[-1],
    )
