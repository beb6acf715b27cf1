"""Which version of a kernel computes; where it fails, its twin speaks."""

from typing import Any

import pytest
import torch
from structlog.testing import capture_logs
from torch import Tensor

from ttscommon.engine.device.device import HostDevice
from ttscommon.engine.kernels import blocks_triton, choice, trial
from ttscommon.engine.kernels.blocks import swiglu

triton = pytest.importorskip("triton")

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device, two of them (test_trials.py has all); what is settled is no other test's."""
    monkeypatch.setattr(trial, "BLOCKS", trial.BLOCKS[:2])
    monkeypatch.setattr(trial, "compiling", list)
    monkeypatch.setattr(choice, "_version", "triton")


def test_a_processor_takes_numbas_version_for_float32_without_gradients() -> None:
    choice.settle("auto")
    assert not choice.use_triton(torch.zeros(1))
    assert not choice.use_numba(torch.zeros(1))
    with torch.no_grad():
        assert choice.use_numba(torch.zeros(1))
        assert not choice.use_numba(torch.zeros(1, dtype=torch.bfloat16))
        assert not choice.use_numba(torch.zeros(1, device="meta"))
        with choice.only("torch"):
            assert not choice.use_numba(torch.zeros(1))
        with torch.autocast("cpu", torch.bfloat16):
            assert not choice.use_numba(torch.zeros(1))


def test_a_version_can_be_insisted_on_for_a_while() -> None:
    choice.settle("auto")
    with choice.only("triton"):
        with choice.only("torch"):
            assert not choice.use_triton(torch.zeros(1))
        assert choice.use_triton(torch.zeros(1))
    assert not choice.use_triton(torch.zeros(1))


def test_kernels_that_agree_with_their_twins_go_on() -> None:
    assert trial.kernels_or_twins(CPU)
    assert choice.use_triton(torch.zeros(1))


def test_a_kernel_that_does_not_compile_leaves_its_twin_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: Tensor) -> Tensor:
        raise AssertionError

    monkeypatch.setattr(blocks_triton, "swiglu", broken)
    with capture_logs() as logs:
        assert not trial.kernels_or_twins(CPU)
    assert not choice.use_triton(torch.zeros(1))
    told = [(line["event"], line["why"]) for line in logs]
    assert told == [("kernels.plain", "swiglu: AssertionError()")]


@pytest.mark.parametrize("wrong", [0.0, float("nan")])
def test_a_kernel_that_computes_something_else_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    monkeypatch.setattr(blocks_triton, "swiglu", lambda x: x[:, :1536] * wrong)
    with capture_logs() as logs:
        assert not trial.kernels_or_twins(CPU)
    assert "off its twin" in logs[0]["why"]


def test_without_a_compiler_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "compiling", lambda: ["There is no C compiler."])
    with capture_logs() as logs:
        assert not trial.kernels_or_twins(CPU)
    assert logs[0]["why"] == "There is no C compiler."


def refuse(self: Any, *_: Any, **__: Any) -> None:
    raise triton.runtime.errors.OutOfResources(300_000, 232_448, "shared memory")


def test_a_kernel_that_fails_for_a_shape_that_is_recorded_leaves_its_twin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A trial of one shape says nothing of the next: the process spoke no more."""
    from triton.runtime.interpreter import InterpretedFunction

    monkeypatch.setattr(InterpretedFunction, "run", refuse)
    x = trial.drawn(CPU, 2, 64)
    with capture_logs() as logs:
        recorded = HostDevice().record(lambda: swiglu(x))
    assert torch.equal(recorded.out, swiglu(x))
    assert [line["event"] for line in logs] == ["kernels.plain"]
    assert "shared memory" in logs[0]["why"]


def test_what_is_no_compilers_fault_ends_a_recording() -> None:
    def broken() -> Tensor:
        raise ValueError("of the work itself")

    with pytest.raises(ValueError, match="of the work itself"):
        HostDevice().record(broken)
