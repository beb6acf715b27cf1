import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from rich.console import Console

from antiphon_bench.config import Poisson, RunConfig
from antiphon_bench.gallery import build
from antiphon_bench.results import (
    RequestResult,
    Summary,
    read_lines,
    read_summary,
    write_json,
    write_lines,
)
from antiphon_bench.stats import summarise, sweep_of
from antiphon_bench.tables import show_run
from tests.unit.antiphon_bench import made

HEALTH = structs.replace(made.HEALTH, loop_lag_p99_s=0.05, loop_lag_max_s=0.05)


def request(index: int, **fields: Any) -> RequestResult:
    given: dict[str, Any] = {
        "index": index, "scheduled_s": 0.5 * index, "lag_s": 0.001, "measured": index > 1,
        "text": "Five <b>words</b> & one more.", "sample_rate": 16_000, "ttfb_s": 0.05,
        "ttfp_s": 0.06, "ttfa_s": 0.08, "e2e_s": 0.7, "audio_s": 0.3, "rtf": 2.3, "chunks": 3,
        "viable_chunks": 3, "viable": True, "min_slack_s": 0.02, "server": {"queue_s": 0.004},
        "trace_s": [0.06, 0.1, 0.2], "trace_samples": [1600, 1600, 1600],
    }  # fmt: skip
    return made.result(**(given | fields))


REQUESTS = [
    *(request(i) for i in range(6)),
    request(6, viable=False, viable_chunks=2, underruns=1),
    request(7, outcome="refused", error="http_429", ttfp_s=None, trace_s=[], trace_samples=[]),
    request(8, outcome="error", error="connect", ttfp_s=None, trace_s=[], trace_samples=[]),
]


def write_run(folder: Path, rate: float, results: list[RequestResult]) -> Summary:
    config = RunConfig(arrivals=Poisson(rate=rate), label="a <label>", warmup_s=1.0, duration_s=4.0)
    summary = summarise(config, results, HEALTH, "2026-01-01")
    write_lines(folder / "requests.jsonl", results)
    write_json(folder / "summary.json", summary)
    return summary


def write_sweep(folder: Path) -> None:
    points = [write_run(folder / f"load-{rate:.3f}", rate, REQUESTS) for rate in (1.0, 16.0)]
    sweep = sweep_of("a <label>", points, ttfp_p95_s=0.5, viable_share=0.2)
    write_json(folder / "sweep.json", sweep)


def test_results_read_back_as_written(tmp_path: Path) -> None:
    summary = write_run(tmp_path, 1.0, REQUESTS)
    assert read_lines(tmp_path / "requests.jsonl") == REQUESTS
    assert read_summary(tmp_path / "summary.json") == summary


def test_a_run_becomes_one_page_that_needs_nothing_else_but_recordings(tmp_path: Path) -> None:
    write_run(tmp_path, 1.0, REQUESTS)
    (tmp_path / "wav").mkdir()
    (tmp_path / "wav" / "00002.wav").write_bytes(b"RIFF")
    page = build([tmp_path], tmp_path).read_text()
    assert page.count("data:image/svg+xml;base64,") == 6  # three plots, light and dark
    assert 'src="http' not in page
    assert "a &lt;label&gt;" in page
    assert "http_429" in page
    assert "<td>queue</td>" in page
    assert 'src="wav/00002.wav"' in page
    assert "Five &lt;b&gt;words" in page


@pytest.mark.parametrize("name", ["talker_engine_s", "min_slack_s", "vocoder_engine_s"])
def test_a_run_keeps_its_rows_in_80_columns(tmp_path: Path, name: str) -> None:
    results = [request(i, server={name: 0.1234 * (i + 1)}) for i in range(6)]
    console = Console(width=80, record=True)
    show_run(console, write_run(tmp_path, 1.0, results))
    said = name.removesuffix("_s").replace("_", " ")
    assert any(
        re.match(rf"  {said} +\d+\.\d ms", line) for line in console.export_text().splitlines()
    )


def test_several_sweeps_share_a_page_with_their_goodput_and_the_run_at_it(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_sweep(tmp_path / name)
    page = build([tmp_path / "a", tmp_path / "b"], tmp_path / "both").read_text()
    assert (tmp_path / "both" / "load-light.svg").exists()
    assert (tmp_path / "both" / "slack-1-dark.svg").exists()
    assert "goodput" in page
    assert "a &lt;label&gt;, Poisson, 16 requests/s" in page


@pytest.mark.parametrize("results", [[], REQUESTS[7:], REQUESTS[2:3]])
def test_runs_with_little_to_show_are_drawn_too(
    tmp_path: Path, results: list[RequestResult]
) -> None:
    write_run(tmp_path, 1.0, results)
    assert build([tmp_path], tmp_path).exists()
