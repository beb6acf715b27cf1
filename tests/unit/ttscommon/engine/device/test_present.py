"""Devices that are not there are told in a line."""

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from antiphon.app import app
from antiphon.starting import unused_gpu
from ttscommon.engine.device import present
from ttscommon.engine.device.present import NoDevice, check_device


def test_the_cpu_is_always_there() -> None:
    check_device("cpu")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "mps"])
def test_a_device_of_another_name_is_none(name: str) -> None:
    with pytest.raises(NoDevice, match="none of cpu, cuda and cuda:N"):
        check_device(name)


def test_a_machine_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NoDevice, match=r"cuda:1 cannot be used: .* torch"):
        check_device("cuda:1")
    result = CliRunner().invoke(app, ["up", "--device", "cuda"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "cuda cannot be used" in result.output


def test_a_gpu_that_is_one_too_many_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    check_device("cuda:1")
    with pytest.raises(NoDevice, match="there are 2 GPUs"):
        check_device("cuda:2")


def test_a_driver_that_is_too_old_is_not_said_to_be_no_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def old() -> None:
        raise RuntimeError("The NVIDIA driver on your system is too old (found 11040). Please ...")

    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "init", old)
    monkeypatch.setattr(present, "_DRIVER", tmp_path)
    with pytest.raises(NoDevice, match=r"a driver is here.*too old \(found 11040\)"):
        check_device("cuda")
    monkeypatch.setattr(present, "_DRIVER", tmp_path / "none")
    with pytest.raises(NoDevice, match="no GPU here"):
        check_device("cuda")


def test_a_gpu_that_cannot_compute_what_is_asked_of_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda n: [(9, 0), (7, 5)][n])
    check_device("cuda")
    with pytest.raises(NoDevice, match=r"cuda:1 cannot be used: its .* is 7\.5, and 8\.0"):
        check_device("cuda:1")


def test_a_gpu_that_nothing_computes_on_is_told_of(tmp_path: Path) -> None:
    assert unused_gpu(tmp_path) is None
    folder = tmp_path / "0000:17:00.0"
    folder.mkdir()
    (folder / "information").write_text("Model: \t NVIDIA H100 80GB HBM3\nIRQ: 1\n")
    assert "(NVIDIA H100 80GB HBM3)" in (unused_gpu(tmp_path) or "")
