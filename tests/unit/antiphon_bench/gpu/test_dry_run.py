"""Every subcommand of the GPU measurements runs through on a CPU, in tiny shapes."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from antiphon_bench.gpu.cli import app

TINY = ("--device", "cpu", "--size", "tiny", "--rows", "1", "--runs", "1")
ENGINES = ("bandwidth", "check", "step", "host", "prefill", "predictor", "codec")
STACK = ("--duration", "1.5", "--warmup", "0")


def call(*arguments: str) -> str:
    told = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert told.exit_code == 0, told.output
    return told.output


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gpu")


@pytest.mark.parametrize("name", ENGINES)
def test_a_subcommand_of_the_engines_measures_and_does_not_measure_twice(
    name: str, out: Path
) -> None:
    assert "complete" in call(name, "--out", str(out), *TINY)
    measured = (out / f"{name}.jsonl").read_text()
    assert all(
        "seconds" in line or "worst" in line or "bytes" in line
        for line in measured.split("\n")[:-1]
    )
    call(name, "--out", str(out), *TINY)
    assert (out / f"{name}.jsonl").read_text() == measured


def test_checks_find_no_difference(out: Path) -> None:
    call("check", "--out", str(out), *TINY)
    points = [json.loads(line) for line in (out / "check.jsonl").read_text().splitlines()]
    assert {point["what"]: point["worst"] for point in points} == {
        "attention": 0.0,
        "sampling": 0.0,
        "predictor": 0.0,
        "recorded": 0.0,
        "codec": 0.0,
    }


def test_the_codec_is_measured_recorded_and_operation_by_operation(out: Path) -> None:
    call("codec", "--out", str(out), *TINY)
    points = [json.loads(line) for line in (out / "codec.jsonl").read_text().splitlines()]
    assert [(point["batch"], point["frames"]) for point in points] == [
        (1, frames) for frames in (1, 2, 4, 16)
    ]
    assert all(min(point["seconds"], point["eager_seconds"]) > 0 for point in points)


def test_every_subcommand_is_run_here() -> None:
    known = set(get_command(app).commands)  # type: ignore[attr-defined]
    stack = {"bus", "open", "closed", "weights"}
    assert known == {*ENGINES, *stack, "profile", "report", "bundle"}


def test_a_profile_names_what_takes_the_time(out: Path) -> None:
    call("profile", "--out", str(out), *TINY)
    assert (out / "trace.json").stat().st_size
    assert "us_a_step" in (out / "profile.jsonl").read_text()


def test_the_path_is_measured_on_engines_that_take_no_time(out: Path) -> None:
    call("bus", "--out", str(out), "--rates", "6", *STACK)
    (point,) = [json.loads(line) for line in (out / "bus.jsonl").read_text().splitlines()]
    assert point["ok"] == point["asked"] > 0


@pytest.mark.slow
def test_the_whole_stack_serves_drawn_weights_in_a_pair(out: Path) -> None:
    call("weights", "--out", str(out), "--size", "tiny")
    small = ("--device", "cpu", "--size", "tiny", "--lengths", "6")
    call("open", "--out", str(out), "--rates", "3", *small, *STACK)
    call("closed", "--out", str(out), "--listeners", "1", *small, *STACK)
    for name in ("open", "closed"):
        (point,) = [json.loads(line) for line in (out / f"{name}.jsonl").read_text().splitlines()]
        assert point["ok"] > 0
        assert point["ttfa_ms"]


def test_the_report_says_what_was_and_what_was_not_measured(tmp_path: Path) -> None:
    (tmp_path / "bandwidth.jsonl").write_text('{"bytes_per_s": 1e12}\n')
    (tmp_path / "step.jsonl").write_text('{"batch": 1, "seconds": 0.002, "least_bytes": 1e9}\n')
    call("report", "--out", str(tmp_path))
    page = (tmp_path / "report.md").read_text()
    assert "| 1 | 0.002 | 1e+09 | 0.001 | 2 |" in page
    assert "Not measured." in page
    assert (tmp_path / "step.png").exists()


def test_the_bundle_holds_what_runs(tmp_path: Path) -> None:
    target = tmp_path / "bundle.tar.gz"
    call("bundle", "--target", str(target), "--no-wheels")
    with tarfile.open(target) as archive:
        names = archive.getnames()
    assert "antiphon/services/talker/talker/runners/device_runner.py" in names
    assert not any("__pycache__" in name for name in names)
