"""The generator watches itself: loop lag, dispatch lag, CPU."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from antiphon_bench.results import GeneratorHealth
from antiphon_bench.stats import percentile

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
