"""Overload and what it asks of a server, with a server that answers from a table."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from antiphon_bench import tables
from antiphon_bench.config import Closed, Poisson, RunConfig, SweepConfig
from antiphon_bench.results import RequestResult, Summary, read_sweep
from antiphon_bench.run import Part, summary_of
from antiphon_bench.stats import Watch, summarise
from antiphon_bench.sweep import Comparison, at_rate, climb, in_turns, overload, sweep
from tests.unit.antiphon_bench import made


def explored(capacity: float, **search: float) -> list[float]:
    """Loads that are tried of a server that carries so much."""
    measured: list[float] = []

    def met(rate: float) -> bool:
        measured.append(rate)
        return rate <= capacity

    climb(SweepConfig.model_validate({"factor": 2.0, "ceiling": 1000.0, **search}), met)
    return measured


@pytest.mark.parametrize(
    ("capacity", "search", "tried"),
    [
        # Up to 16, and 11.3 and 9.5 halve what is between, as ratios; so does 10.4.
        (11.0, {}, [1, 2, 4, 8, 16, 128**0.5, 8 * 2**0.25, 8 * 2**0.375]),
        (3.0, {"start": 8.0}, [8, 4, 2, 8**0.5]),
        (1e9, {"factor": 4.0, "ceiling": 20.0}, [1, 4, 16]),
        (1.0, {"refine": 0}, [1, 2]),
    ],
)
def test_loads_climb_until_one_is_too_much_and_are_then_bisected(
    capacity: float, search: dict[str, float], tried: list[float]
) -> None:
    assert explored(capacity, **search) == pytest.approx(tried)


def test_a_closed_loop_is_swept_by_its_users() -> None:
    config = at_rate(RunConfig(arrivals=Closed(concurrency=1)), 12.4)
    assert config.arrivals == Closed(concurrency=12)
    assert at_rate(RunConfig(), 2.5).arrivals == Poisson(rate=2.5)


def fake_measure(config: RunConfig) -> Summary:
    """A server that is prompt up to 5 requests/s."""
    rate = config.arrivals.load
    waited = 0.1 if rate <= 5.0 else 2.0
    heard = made.result(ttfp_s=waited, chunks=2, viable_chunks=2, viable=True)
    return summarise(config, [heard], made.HEALTH, "2026-01-01")


def test_a_sweep_finds_the_goodput_and_keeps_every_point(tmp_path: Path) -> None:
    config = SweepConfig(run=RunConfig(out=tmp_path), refine=2, settle_s=0.0)
    seen: list[tuple[float, bool]] = []
    found = sweep(config, measure=fake_measure, report=lambda s, ok: seen.append((s.rate, ok)))
    assert [rate for rate, _ in seen[:4]] == [1.0, 2.0, 4.0, 8.0]
    assert [ok for _, ok in seen[:4]] == [True, True, True, False]
    assert found.goodput == pytest.approx(32**0.5 / 2**0.25)
    assert read_sweep(tmp_path / "sweep.json") == found


def test_fixed_rates_are_measured_as_given(tmp_path: Path) -> None:
    config = SweepConfig(run=RunConfig(out=tmp_path), rates=(9.0, 3.0), settle_s=0.0)
    found = sweep(config, measure=fake_measure)
    assert [p.rate for p in found.points] == [3.0, 9.0]
    assert found.goodput == 3.0


def test_servers_are_measured_in_turns_at_every_load() -> None:
    config = SweepConfig(rates=(2.0, 8.0), settle_s=0.0)
    asked: list[RunConfig] = []

    def measure(one: RunConfig) -> Summary:
        asked.append(one)
        return fake_measure(one)

    list(in_turns(config, ("http://a:1", "http://b:2"), 2, measure=measure))
    turns = [(one.arrivals.load, one.label, one.seed) for one in asked]
    assert turns == [
        (rate, label, seed) for rate in (2.0, 8.0) for seed in (0, 1) for label in ("a:1", "b:2")
    ]
    assert [one.target.url for one in asked[:2]] == ["http://a:1", "http://b:2"]
    assert len({one.out for one in asked}) == 8


Answer = Callable[[RunConfig, int], RequestResult]


def result(index: int, *, ttfp_s: float = 0.1, viable: bool = True) -> RequestResult:
    return made.result(
        index=index, scheduled_s=float(index), ttfp_s=ttfp_s, audio_s=2.0, chunks=1, viable=viable,
        viable_chunks=int(viable), sample_rate=10, trace_s=[0.5], trace_samples=[20],
    )  # fmt: skip


def refusal(index: int, e2e_s: float = 0.004) -> RequestResult:
    refused = {"outcome": "refused", "error": "http_429_overloaded", "e2e_s": e2e_s}
    return made.result(index=index, scheduled_s=float(index), **refused)


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
