"""Devices that are not there are told in a line."""

from __future__ import annotations

import pytest
import torch
from typer.testing import CliRunner

from antiphon.app import app
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
    check_device("cuda:1")
    with pytest.raises(NoDevice, match="there are 2 GPUs"):
        check_device("cuda:2")
