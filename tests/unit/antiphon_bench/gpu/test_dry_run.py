"""Every subcommand of the GPU measurements runs through on a CPU, in tiny shapes."""

import json
import tarfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from antiphon_bench.gpu import records, stack
from antiphon_bench.gpu.both import VOCODER
from antiphon_bench.gpu.cli import app
from antiphon_bench.gpu.codecs import Codecs
from antiphon_bench.gpu.subject import Subject
from ttscommon.engine.device.device import HostDevice
from vocoder.settings import VocoderSettings

TINY = ("--device", "cpu", "--size", "tiny", "--rows", "1", "--runs", "1")
ENGINES = ("bandwidth", "check", "step", "host", "prefill", "predictor", "codec", "engine")
LOOP = ("--loop", "2")
STACK = ("--duration", "1.5", "--warmup", "0")


def call(*arguments: str) -> str:
    told = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert told.exit_code == 0, told.output
    return told.output


def points(folder: Path, name: str) -> list[dict[str, Any]]:
    """What was measured."""
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gpu")


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_a_subcommand_of_the_engines_measures_and_does_not_measure_twice(
    name: str, out: Path
) -> None:
    assert "complete" in call(name, "--out", str(out), *TINY, *LOOP)
    measured = (out / f"{name}.jsonl").read_text()
    assert all(
        any(word in line for word in ("seconds", "worst", "bytes", "audio_s"))
        for line in measured.split("\n")[:-1]
    )
    call(name, "--out", str(out), *TINY, *LOOP)
    assert (out / f"{name}.jsonl").read_text() == measured


def test_checks_find_no_difference(out: Path) -> None:
    call("check", "--out", str(out), *TINY)
    measured = points(out, "check")
    worst = {point["what"]: point["worst"] for point in measured}
    across = worst.pop("codec across shapes"), worst.pop("codec against the CPU")
    assert set(worst.values()) == {0.0}
    assert len(worst) == 4
    assert max(across) < 1.0, "steps of int16"


def test_both_engines_are_measured_without_a_bus(out: Path) -> None:
    call("engine", "--out", str(out), *TINY, *LOOP)
    [point] = points(out, "engine")
    assert point["streams"] == 1
    assert point["audio_s_per_s"] > 0
    assert point["launches"]["talker graph"] > point["launches"]["talker eager"] == 0
    assert point["launches"]["vocoder graph"] > 0


def test_what_is_measured_is_what_is_served_on_a_gpu(tmp_path: Path) -> None:
    """A step of more than 32 frames of the codec would keep the talker's waiting."""
    plan = stack.Plan(tmp_path, tmp_path, "cuda", 1.0, 0.0, (25,), kv_bytes=1 << 30)
    arguments = plan.arguments(1)
    told = [b.partition("=")[0] for a, b in pairwise(arguments) if a == "--set"]
    assert told == ["talker.voice_dir", "vocoder.voice_dir", "talker.kv_bytes"]
    served, measured = VocoderSettings(device="cuda"), VOCODER.limits(12.5)
    assert measured == served.limits(12.5)
    assert (measured.frames, measured.stream_frames) == (32, 16)
    codec = Codecs(Subject(HostDevice(), "tiny"), 1, 1).codec_of(64)
    padded = max(shape.rows * shape.frames for shape in codec.on_device.shapes.expected())
    assert padded == 32, "padding counts"


def test_host_time_is_of_whole_turns_and_less_than_the_turn(out: Path) -> None:
    call("host", "--out", str(out), *TINY)
    [point] = points(out, "host")
    assert 0 < point["host_seconds"] <= point["seconds"]


def test_the_codec_is_measured_recorded_and_operation_by_operation(out: Path) -> None:
    call("codec", "--out", str(out), *TINY)
    measured = points(out, "codec")
    assert [(point["batch"], point["frames"]) for point in measured] == [
        (1, frames) for frames in (1, 2, 4, 16)
    ]
    kinds = ("seconds", "eager_seconds", "eager_tf32_seconds")
    assert all(point[kind] > 0 for point in measured for kind in kinds)


def test_every_subcommand_is_run_here() -> None:
    known = set(get_command(app).commands)  # type: ignore[attr-defined]
    stack = {"bus", "open", "closed", "weights"}
    assert known == {*ENGINES, *stack, "profile", "report", "bundle", "all"}


def test_a_profile_names_what_takes_the_time(out: Path) -> None:
    call("profile", "--out", str(out), *TINY)
    assert (out / "trace-1.json").stat().st_size
    assert "us_a_step" in (out / "profile-1.jsonl").read_text()


@pytest.mark.slow
def test_the_path_is_measured_on_engines_that_take_no_time(out: Path) -> None:
    call("bus", "--out", str(out), "--rates", "6", *STACK)
    [point] = points(out, "bus")
    assert point["ok"] == point["asked"] > 0
    assert point["counts"]["launches talker eager"] > 0


@pytest.mark.slow
def test_the_whole_stack_serves_drawn_weights_in_a_pair(out: Path) -> None:
    call("weights", "--out", str(out), "--size", "tiny")
    small = ("--device", "cpu", "--size", "tiny", "--lengths", "6")
    call("open", "--out", str(out), "--rates", "3", *small, *STACK)
    call("closed", "--out", str(out), "--listeners", "1", *small, *STACK)
    call("open", "--out", str(out), "--rates", "3", "--apart", *small, *STACK)
    for name in ("open", "closed", "open-apart"):
        [point] = points(out, name)
        assert point["ok"] > 0
        assert point["ttfa_ms"]
        assert point["counts"]["launches talker eager"] > 0


def test_the_report_says_what_was_and_what_was_not_measured(tmp_path: Path) -> None:
    (tmp_path / "bandwidth.jsonl").write_text('{"bytes_per_s": 1e12}\n')
    (tmp_path / "step.jsonl").write_text('{"batch": 1, "seconds": 0.002, "least_bytes": 1e9}\n')
    call("report", "--out", str(tmp_path))
    page = (tmp_path / "report.md").read_text()
    assert "| 1 | 0.002 | 1e+09 | 0.001 | 2 |" in page
    assert "Not measured." in page
    assert (tmp_path / "step.png").exists()


def test_the_report_needs_nothing_to_draw_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "step.jsonl").write_text('{"batch": 1, "seconds": 0.002, "least_bytes": 1e9}\n')
    monkeypatch.setattr(records, "find_spec", lambda name: None)
    call("report", "--out", str(tmp_path))
    assert "step.png" not in (tmp_path / "report.md").read_text()


def test_the_bundle_holds_what_runs(tmp_path: Path) -> None:
    target = tmp_path / "bundle.tar.gz"
    call("bundle", "--target", str(target), "--no-wheels")
    with tarfile.open(target) as archive:
        names = archive.getnames()
    assert "antiphon/libs/ttsfamilies/ttsfamilies/base/runners/device_runner.py" in names
    assert not any("__pycache__" in name for name in names)
