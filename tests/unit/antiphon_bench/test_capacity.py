"""Which load counts as carried, and who is blamed for the first that was not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from antiphon_bench import tables
from antiphon_bench.capacity import Capacity, Point, capacity
from antiphon_bench.config import Closed, RunConfig
from antiphon_bench.driver import Part
from antiphon_bench.health import Watch
from antiphon_bench.processes import NotHere, Use, stack_at
from antiphon_bench.results import RequestResult, Summary
from antiphon_bench.run import summary_of


def result(index: int, *, viable: bool, outcome: str = "ok") -> RequestResult:
    return RequestResult(
        index=index, scheduled_s=float(index), lag_s=0.0, measured=True, text="", voice="",
        outcome=outcome, e2e_s=1.0, ttfp_s=0.1, audio_s=2.0, chunks=1,  # type: ignore[arg-type]
        viable_chunks=int(viable), viable=viable, sample_rate=10, trace_s=[0.5], trace_samples=[20],
    )  # fmt: skip


def carrying(
    most: int, cores: dict[str, float], machine: float = 0.5
) -> Callable[[RunConfig], tuple[Summary, Use]]:
    """A stack that serves `most` listeners without a gap and one more with a gap."""

    def measure(config: RunConfig) -> tuple[Summary, Use]:
        assert isinstance(config.arrivals, Closed)
        fits = config.arrivals.concurrency <= most
        results = [result(index, viable=fits or index > 0) for index in range(5)]
        part = Part(results, Watch((0.0,), 0.1))
        return summary_of(config, results, [part], "now"), Use(cores, machine)

    return measure


@pytest.mark.parametrize(
    ("cores", "machine", "blamed"),
    [
        ({"gateway": 0.97, "broker": 0.4}, 0.7, "gateway, at 0.97"),
        ({"gateway": 0.6, "null": 0.7}, 0.98, "the machine, at 98%; 1.40 cores of it ours, null"),
        ({"gateway": 0.2}, 0.3, "no process and not the machine"),
    ],
)
def test_loads_are_tried_until_one_is_not_carried(
    tmp_path: Path, cores: dict[str, float], machine: float, blamed: str
) -> None:
    config = RunConfig(out=tmp_path)
    found = capacity(config, [1, 2, 3], measure=carrying(1, cores, machine), settle_s=0.0)
    assert (found.carried, found.broke_at, len(found.points)) == (1, 2, 2)
    assert found.limit is not None
    assert found.limit.startswith(blamed)
    stored = msgspec.json.decode((tmp_path / "capacity.json").read_bytes(), type=Capacity)
    assert stored == found


def test_a_refusal_or_a_failure_is_not_carried() -> None:
    results = [result(0, viable=True), result(1, viable=True, outcome="refused")]
    summary = summary_of(RunConfig(), results, [Part(results, Watch((0.0,), 0.1))], "now")
    assert not Point(1, summary, {}, 0.1).carried


def test_the_tables_show_shares_and_what_broke(tmp_path: Path) -> None:
    config = RunConfig(out=tmp_path)
    measure = carrying(100, {"gateway": 0.1, "broker": 0.2})
    found = capacity(config, [100, 200], measure=measure, settle_s=0.0)
    console = Console(width=200, record=True)
    for point in found.points:
        console.print(tables.load(point))
    tables.show_capacity(console, found)
    text = console.export_text()
    assert "broker 0.20  gateway 0.10  generator 0.10" in text
    assert "carried: 100" in text
    assert "0.50 cores for 500" in text


def test_an_address_where_nobody_listens_has_no_stack() -> None:
    with pytest.raises(NotHere):
        stack_at("http://127.0.0.1:1")
