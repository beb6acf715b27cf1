"""Overload and what it asks of a server, with a server that answers from a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from antiphon_bench import tables
from antiphon_bench.config import Poisson, RunConfig, SweepConfig
from antiphon_bench.driver import Part
from antiphon_bench.health import Watch
from antiphon_bench.overload import Comparison, overload
from antiphon_bench.results import RequestResult, Summary
from antiphon_bench.run import summary_of

Answer = Callable[[RunConfig, int], RequestResult]


def result(index: int, *, ttfp_s: float = 0.1, viable: bool = True) -> RequestResult:
    return RequestResult(
        index=index, scheduled_s=float(index), lag_s=0.0, measured=True, text="", voice="",
        outcome="ok", e2e_s=1.0, ttfp_s=ttfp_s, audio_s=2.0, chunks=1, viable_chunks=int(viable),
        viable=viable, sample_rate=10, trace_s=[0.5], trace_samples=[20],
    )  # fmt: skip


def refusal(index: int, e2e_s: float = 0.004) -> RequestResult:
    return RequestResult(
        index=index, scheduled_s=float(index), lag_s=0.0, measured=True, text="", voice="",
        outcome="refused", error="http_429_overloaded", e2e_s=e2e_s,
    )  # fmt: skip


def served(answer: Answer, requests: int = 20) -> Callable[[RunConfig], Summary]:
    def measure(config: RunConfig) -> Summary:
        results = [answer(config, index) for index in range(requests)]
        return summary_of(config, results, [Part(results, Watch((), 0.1))], "now")

    return measure


def search(tmp_path: Path) -> SweepConfig:
    return SweepConfig(run=RunConfig(arrivals=Poisson(rate=1.0), out=tmp_path), settle_s=0.0)


def verdicts(comparison: Comparison) -> list[bool]:
    return [check.met for check in comparison.checks]


def test_an_overload_is_a_multiple_of_the_goodput_that_was_found(tmp_path: Path) -> None:
    def answer(config: RunConfig, index: int) -> RequestResult:
        return refusal(index) if config.arrivals.load > 4 and index % 2 else result(index)

    found = overload(search(tmp_path), measure=served(answer))
    assert 2.0 <= found.runs["goodput"].rate <= 4.0
    assert found.runs["overload"].rate == 2 * found.runs["goodput"].rate
    assert verdicts(found) == [True, True, True]
    kept = msgspec.json.decode((tmp_path / "comparison.json").read_bytes(), type=Comparison)
    assert kept == found


@pytest.mark.parametrize(
    ("accepted", "refused", "expected"),
    [
        ({"viable": False}, {}, [False, True, True]),
        ({}, {"e2e_s": 0.2}, [True, False, True]),
    ],
)
def test_an_overload_that_hurts_anybody_is_told(
    tmp_path: Path, accepted: dict[str, bool], refused: dict[str, float], expected: list[bool]
) -> None:
    def answer(config: RunConfig, index: int) -> RequestResult:
        return refusal(index, **refused) if index % 2 else result(index, **accepted)

    assert verdicts(overload(search(tmp_path), 3.0, measure=served(answer))) == expected


def test_without_any_goodput_there_is_nothing_to_overload(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="goodput"):
        overload(search(tmp_path), measure=served(lambda _, index: refusal(index)))


def test_a_comparison_is_shown_with_what_was_not_met(tmp_path: Path) -> None:
    found = overload(search(tmp_path), 3.0, measure=served(lambda _, i: result(i, viable=False)))
    console = Console(record=True, width=200)
    tables.show_comparison(console, found)
    text = console.export_text()
    assert "not met  viable share of the accepted" in text
    assert "not met  p99 of a refusal (s), overloaded: nothing measured" in text
    assert "met  failed" in text
