import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from antiphon_bench.cli import app
from antiphon_bench.config import Closed, Gamma, Poisson, RunConfig
from antiphon_bench.options import Options
from antiphon_bench.results import read_lines, read_summary, read_sweep
from antiphon_bench.run import run
from tests.unit.antiphon_bench.loopback import Pace, loopback_process

PACE = Pace(first_s=0.01, chunk_s=0.1, speed=20.0, word_s=0.02)


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_options_choose_the_arrivals() -> None:
    assert Options().arrivals(None, None) == Poisson(rate=1.0)
    assert Options(cv=3.0).arrivals(2.0, None) == Gamma(rate=2.0, cv=3.0)
    assert Options(listen=False).arrivals(None, 4) == Closed(concurrency=4, listen=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--rate", "1", "--concurrency", "2"],
        ["run", "--rate", "-1"],
        ["run", "--body", "[1]"],
        ["run", "--body", "{"],
        ["run", "--header", "no colon"],
        ["run", "--protocol", "smoke"],
        ["run", "--response-format", "ogg"],
        ["sweep", "--against", "http://127.0.0.1:1"],  # at which loads?
        ["report", "nowhere"],
    ],
)
def test_nonsense_is_refused_before_anything_runs(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2


def test_a_run_leaves_lines_a_summary_and_a_page(tmp_path: Path) -> None:
    with loopback_process(PACE) as url:
        output = invoke(
            *("run", "--url", url, "--rate", "20", "--warmup", "0.2", "--duration", "0.8"),
            *("--out", str(tmp_path), "--protocol", "ws", "--label", "test"),
        )
    assert "TTFP" in output
    assert "generator" in output
    summary = read_summary(tmp_path / "summary.json")
    assert summary.ok == summary.offered > 5
    assert len(read_lines(tmp_path / "requests.jsonl")) >= summary.offered
    assert json.loads((tmp_path / "requests.jsonl").read_text().splitlines()[0])["voice"]
    assert (tmp_path / "index.html").exists()


@pytest.mark.slow
def test_a_sweep_and_its_report(tmp_path: Path) -> None:
    with loopback_process(PACE) as url:
        output = invoke(
            *("sweep", "--url", url, "--rates", "10,20", "--warmup", "0", "--duration", "0.5"),
            *("--out", str(tmp_path / "s"), "--ttfp-p95", "5", "--settle", "0"),
        )
    assert "goodput" in output
    assert len(read_sweep(tmp_path / "s" / "sweep.json").points) == 2
    invoke("report", str(tmp_path / "s"), "--out", str(tmp_path / "page"))
    assert (tmp_path / "page" / "index.html").exists()


@pytest.mark.slow
def test_two_servers_are_compared_in_one_table(tmp_path: Path) -> None:
    with loopback_process(PACE) as one, loopback_process(PACE) as other:
        output = invoke(
            *("sweep", "--url", one, "--against", other, "--rates", "2", "--closed"),
            *("--repeats", "2", "--warmup", "0.1", "--duration", "0.5", "--settle", "0"),
            *("--protocol", "ws", "--out", str(tmp_path)),
        )
    rows = [line for line in output.splitlines() if line.startswith("| 2 |")]
    assert [row.split(" | ")[1] in one for row in rows] == [True, False, True, False]
    assert all("100 %" in row for row in rows)


@pytest.mark.slow
def test_two_processes_share_one_schedule(tmp_path: Path) -> None:
    plan = RunConfig(
        arrivals=Poisson(rate=20.0), warmup_s=0.0, duration_s=1.0, processes=2, out=tmp_path
    )
    with loopback_process(PACE) as url:
        target = plan.target.model_copy(update={"url": url})
        summary = run(plan.model_copy(update={"target": target}))
    indices = [r.index for r in read_lines(tmp_path / "requests.jsonl")]
    assert sorted(indices) == list(range(len(indices)))
    assert summary.generator.processes == 2
    assert summary.ok == len(indices)
