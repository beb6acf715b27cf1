from typing import Any

import pytest

from antiphon_bench.config import Poisson, RunConfig
from antiphon_bench.results import RequestResult, Summary
from antiphon_bench.stats import (
    audio_in_window,
    concurrency,
    goodput,
    meets,
    percentile,
    summarise,
)
from tests.unit.antiphon_bench.made import HEALTH, result


def spoken(at_s: float, ttfp_s: float, *, viable: bool = True, measured: bool = True) -> Any:
    return result(
        scheduled_s=at_s, measured=measured, sample_rate=1000, ttfp_s=ttfp_s, audio_s=2.0, rtf=0.5,
        chunks=4, viable_chunks=4 if viable else 3, viable=viable, trace_s=[ttfp_s, 0.9],
        trace_samples=[500, 1500], server={"queue_s": ttfp_s / 2},
    )  # fmt: skip


def summary(results: list[RequestResult], rate: float = 1.0) -> Summary:
    config = RunConfig(arrivals=Poisson(rate=rate), warmup_s=0.0, duration_s=10.0)
    return summarise(config, results, HEALTH, "2026-01-01")


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 2.5), (0.95, 3.85), (1.0, 4.0)])
def test_percentiles_interpolate_linearly(share: float, value: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], share) == pytest.approx(value)
    assert percentile([7.0], share) == 7.0
    with pytest.raises(ValueError, match="at least one"):
        percentile([], share)


def test_concurrency_counts_only_what_lies_inside_the_window() -> None:
    # Inside [0, 10): 4 s of the first, 2 s of the second, 3 s of the third; two overlap.
    spans = [(-2.0, 4.0), (3.0, 5.0), (7.0, 12.0), (20.0, 30.0)]
    mean, peak = concurrency(spans, 0.0, 10.0)
    assert mean == pytest.approx(0.9)
    assert peak == 2
    # Streams back to back are one at a time.
    assert concurrency([(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)], 0.0, 3.0) == (1.0, 1)


def test_audio_counts_by_when_it_arrived() -> None:
    results = [
        spoken(0.0, 0.1, measured=False),  # 0.5 s at 0.1 and 1.5 s at 0.9: both before
        spoken(0.5, 0.1),  # 0.5 s at 0.6 (before), 1.5 s at 1.4 (inside)
        spoken(2.0, 0.1),  # both inside
        spoken(4.0, 0.95),  # 0.5 s at 4.95 (after), 1.5 s at 4.9 (inside)
    ]
    assert audio_in_window(results, 1.0, 4.92) == pytest.approx(1.5 + 2.0 + 1.5)


def test_a_summary_separates_refusals_from_failures_and_leaves_the_warm_up_out() -> None:
    found = summary(
        [
            spoken(0.0, 9.0, measured=False),
            spoken(1.0, 0.1),
            spoken(2.0, 0.3, viable=False),
            result(outcome="refused", error="http_429", e2e_s=0.02),
            result(outcome="error", error="timeout_stalled"),
        ]
    )
    assert (found.offered, found.ok, found.refused, found.failed) == (4, 2, 1, 1)
    assert found.errors == {"http_429": 1, "timeout_stalled": 1}
    assert found.viable_stream_share == pytest.approx(1 / 3)
    assert found.served_viable_share == pytest.approx(1 / 4)
    assert found.viable_chunk_share == pytest.approx(7 / 8)
    assert found.quantiles["ttfp_s"].p50 == pytest.approx(0.2)
    assert found.quantiles["refused_s"].max == pytest.approx(0.02)
    assert found.server["queue_s"].mean == pytest.approx(0.1)


def test_audio_a_second_includes_audio_of_requests_of_the_warm_up() -> None:
    found = summary([spoken(-0.5, 0.1, measured=False), spoken(1.0, 0.1)])
    assert found.audio_s == pytest.approx(1.5 + 2.0)
    assert found.audio_s_per_s == pytest.approx(0.35)


def test_a_summary_of_nothing_has_no_shares() -> None:
    found = summary([])
    assert found.viable_stream_share is None
    assert found.served_viable_share is None
    assert found.quantiles == {}
    assert not meets(found, ttfp_p95_s=1.0, viable_share=0.5)


def test_turning_people_away_is_not_goodput() -> None:
    refused = [result(outcome="refused", error="http_429", e2e_s=0.01) for _ in range(2)]
    crowd = summary([spoken(1.0, 0.1), *refused])
    assert crowd.viable_stream_share == 1.0
    assert not meets(crowd, ttfp_p95_s=0.5, viable_share=0.999)


def test_goodput_is_the_highest_rate_below_the_first_failure() -> None:
    good = [spoken(1.0, 0.1)]
    slow = [spoken(1.0, 0.9)]
    points = [summary(good, 4.0), summary(slow, 2.0), summary(good, 1.0)]
    # 4.0 met its target by luck: 2.0 below it did not.
    assert goodput(points, ttfp_p95_s=0.5, viable_share=0.999) == 1.0
    assert goodput(points[1:2], ttfp_p95_s=0.5, viable_share=0.999) is None
