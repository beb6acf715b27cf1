"""`antiphon plan`: what an operator sees, and what it says of bad input."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from antiphon.app import app
from tests.unit.antiphon_bench.plan.scene import write_curves

CALLS = "at_s,characters\n" + "".join(f"{number / 3},50\n" for number in range(24))


def plan(tmp_path: Path, *arguments: str) -> Result:
    curves = tmp_path / "curves"
    if not curves.exists():
        write_curves(curves)
    return CliRunner().invoke(app, ["plan", "--curves", str(curves), *arguments])


@pytest.fixture
def calls(tmp_path: Path) -> str:
    path = tmp_path / "calls.csv"
    path.write_text(CALLS)
    return str(path)


def test_a_trace_gets_a_fleet_and_values(tmp_path: Path, calls: str) -> None:
    out = tmp_path / "plan"
    result = plan(tmp_path, "--trace", calls, "--seconds", "10", "--json", "--out", str(out))
    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    assert made["met"] is True
    assert made["fleet"] == {"gateway": 1, "talker": 1, "vocoder": 1, "broker": 1}
    assert made["answer"]["requests"] == 24
    assert {path.name for path in out.iterdir()} == {"plan.json", "values.yaml"}
    assert json.loads((out / "plan.json").read_text()) == made
    assert yaml.safe_load((out / "values.yaml").read_text()) == made["values"]


@pytest.mark.slow
def test_a_given_fleet_that_is_too_small_is_exit_status_1(tmp_path: Path) -> None:
    result = plan(
        tmp_path, "--callers", "45", "--pause", "0", "--texts", "medium",
        "--seconds", "10", "--fleet", "1,1,1",
    )  # fmt: skip
    assert result.exit_code == 1
    assert "meets the targets" in result.stdout
    assert "refused" in result.stdout
    assert "gives way first" in result.stdout


def test_callers_are_planned_for_talkers_with_fewer_slots(tmp_path: Path) -> None:
    given = ("--callers", "4", "--seconds", "10", "--fleet", "1,1,1", "--once", "--json")
    made = json.loads(plan(tmp_path, *given, "--slots", "8").stdout)
    assert made["values"]["models"][0]["talker"]["settings"]["slots"] == 8
    assert made["met"] is True


def test_workers_on_a_device_have_its_settings(tmp_path: Path) -> None:
    write_curves(tmp_path / "curves", computes=False)
    given = ("--callers", "4", "--seconds", "10", "--fleet", "1,1,1", "--once", "--json")
    (served,) = json.loads(plan(tmp_path, *given, "--vocoder-slots", "8").stdout)["values"][
        "models"
    ]
    talking, vocoding = served["talker"]["settings"], served["vocoder"]["settings"]
    assert (talking["slots"], talking["batch_streams"]) == (256, 256)
    assert (vocoding["slots"], vocoding["batch_streams"]) == (8, 32)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--trace", "nowhere.csv"], "nowhere.csv"),
        (["--callers", "5", "--texts", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_bad_input_is_a_line_and_exit_status_2(
    tmp_path: Path, arguments: list[str], reason: str
) -> None:
    result = plan(tmp_path, *arguments)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--callers", "5", "--rate", "1"],
        ["--rate", "1", "--nodes", "2"],
        ["--rate", "1", "--brokers", "2"],
        ["--rate", "1", "--slots", "8193"],
    ],
)
def test_a_question_that_is_none_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    assert plan(tmp_path, *arguments).exit_code == 2
