"""Devices by their names; those that are not there, and what is lacking, are told in a line."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from antiphon.app import app
from antiphon.starting import unused_gpu
from antiphon_bench.gpu import cli
from ttscommon.engine.device import device, needs, present
from ttscommon.engine.device.device import device_of
from ttscommon.engine.device.present import NoDevice, check_device
from ttscommon.engine.inflight import BatchSizes, DeviceError


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "mps"])
def test_a_device_of_another_name_is_none(name: str) -> None:
    check_device("cpu")
    with pytest.raises(NoDevice, match="none of cpu, cuda and cuda:N"):
        check_device(name)


def test_a_machine_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NoDevice, match=r"cuda:1 cannot be used: .* torch"):
        check_device("cuda:1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(DeviceError, match="no CUDA device 0"):
        device.Cuda()
    result = CliRunner().invoke(app, ["up", "--device", "cuda"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "cuda cannot be used" in result.output


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


def test_a_gpu_that_is_one_too_many_or_computes_too_little_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda n: [(9, 0), (7, 5)][n])
    check_device("cuda")
    with pytest.raises(NoDevice, match=r"cuda:1 cannot be used: its .* is 7\.5, and 8\.0"):
        check_device("cuda:1")
    with pytest.raises(NoDevice, match="there are 2 GPUs"):
        check_device("cuda:2")


def test_a_gpu_that_nothing_computes_on_is_told_of(tmp_path: Path) -> None:
    assert unused_gpu(tmp_path) is None
    folder = tmp_path / "0000:17:00.0"
    folder.mkdir()
    (folder / "information").write_text("Model: \t NVIDIA H100 80GB HBM3\nIRQ: 1\n")
    assert "(NVIDIA H100 80GB HBM3)" in (unused_gpu(tmp_path) or "")


def test_a_compiler_headers_and_a_gpu_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(needs, "which", lambda _: None)
    monkeypatch.setattr(needs, "_headers", lambda: tmp_path)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    text = "\n".join(needs.problems())
    assert "no C compiler" in text
    assert "no Python.h (Debian: python3-dev)" in text
    assert "torch sees no GPU" in text
    monkeypatch.setattr(needs, "find_spec", lambda name: object())
    monkeypatch.setattr(needs, "which", "/usr/bin/{}".format)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    (tmp_path / "Python.h").touch()
    assert needs.problems() == []


def test_a_subcommand_ends_in_words_and_not_in_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cli, "problems", lambda: ["There is no C compiler."])
    for name in ("step", "profile", "open", "all"):
        told = CliRunner().invoke(cli.app, [name, "--device", "cuda"])
        assert told.exit_code == 1
        assert "There is no C compiler." in told.output


def test_the_talkers_work_goes_first_where_stages_share_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, tried = list[tuple[int, int]](), list[str]()

    def cuda(index: int, priority: int) -> SimpleNamespace:
        made.append((index, priority))
        return SimpleNamespace(where=f"cuda:{index}")

    monkeypatch.setattr(device, "Cuda", cuda)
    monkeypatch.setattr(device, "kernels_or_twins", lambda where, _: tried.append(where))
    assert device_of("cpu") is None
    device_of("cuda:1")
    device_of("cuda", -1)
    assert made == [(1, 0), (0, -1)]
    assert tried == ["cuda:1", "cuda:0"], "before anything is computed there"


def test_work_is_padded_to_the_next_size_that_holds_it() -> None:
    buckets = BatchSizes.doubling(24)
    assert buckets.sizes == (1, 2, 4, 8, 16, 24)
    assert [buckets.fit(n) for n in (1, 3, 16, 17, 24, 25)] == [1, 4, 16, 24, 24, None]
    assert BatchSizes.doubling(1).sizes == (1,)
    with pytest.raises(ValueError, match="positive"):
        BatchSizes([0])
