"""All measurements in order: each on its own, within its minutes, and never twice."""

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from antiphon_bench.gpu import sequence
from antiphon_bench.gpu.records import Records
from antiphon_bench.gpu.sequence import CUT_OFF, CutOff, Part, _run, in_order, within

PARTS = (Part("bandwidth"), Part("profile", ("--rows", "64")), Part("step"))


class Machine:
    """Runs nothing, and says how it ended."""

    def __init__(self, **ends: int) -> None:
        self.ends, self.ran = ends, list[str]()
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str], most_s: float, log: Path) -> int:
        self.ran.append(command[3])
        self.commands.append(command)
        assert most_s < 9 * 60
        return self.ends.pop(command[3], 0)


def nothing(part: Part) -> Sequence[str]:
    return ("--device", "cpu")


def test_one_that_fails_or_is_cut_off_does_not_stop_the_others_and_is_called_again(
    tmp_path: Path,
) -> None:
    machine = Machine(bandwidth=1, step=CUT_OFF)
    assert not in_order(PARTS, tmp_path, nothing, 60, machine)
    assert machine.ran == ["bandwidth", "profile", "step"]
    assert in_order(PARTS, tmp_path, nothing, 60, machine)
    assert machine.ran[3:] == ["bandwidth", "step"]
    ended = [point["ended"] for point in Records(tmp_path, "all").read()]
    assert ended == ["failed (1)", "complete", "cut off", "complete", "complete"]


def test_nothing_is_begun_when_the_minutes_are_over(tmp_path: Path) -> None:
    machine = Machine()
    assert not in_order(PARTS, tmp_path, nothing, 0.1, machine)
    assert machine.ran == []


def test_each_gets_at_most_eight_minutes_and_no_more_than_are_left(tmp_path: Path) -> None:
    machine = Machine()
    in_order(PARTS[:1], tmp_path / "a", nothing, 60, machine)
    in_order(PARTS[:1], tmp_path / "b", nothing, 2, machine)
    told = [float(command[command.index("--minutes") + 1]) for command in machine.commands]
    assert told[0] == 8.0
    assert 1.0 < told[1] < 2.0


def test_what_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    waits = "import signal; signal.pause()"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {waits!r}])"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    before = set(psutil.Process().children(recursive=True))
    assert _run([sys.executable, "-c", code], 0.5, tmp_path / "log") == CUT_OFF
    assert set(psutil.Process().children(recursive=True)) <= before


def test_the_start_of_the_process_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence, "_began_s", time.time() - 90)
    assert 89 < sequence.spent_s() < 100
    with pytest.raises(CutOff), within(1.0):
        signal.pause()
