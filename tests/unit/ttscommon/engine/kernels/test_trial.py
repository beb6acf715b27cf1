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


def broken(_: Tensor) -> Tensor:
    raise AssertionError


@pytest.mark.parametrize(
    ("module", "name", "instead", "why"),
    [
        (blocks_triton, "swiglu", broken, "swiglu: AssertionError()"),
        (blocks_triton, "swiglu", lambda x: x[:, :1536] * 0.0, "off its twin"),
        (blocks_triton, "swiglu", lambda x: x[:, :1536] * torch.nan, "off its twin"),
        (trial, "compiling", lambda: ["There is no C compiler."], "There is no C compiler."),
    ],
    ids=["does not compile", "computes something else", "no numbers", "no compiler"],
)
def test_where_kernels_fail_their_twins_compute_and_the_log_says_why(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, instead: Any, why: str
) -> None:
    monkeypatch.setattr(module, name, instead)
    with capture_logs() as logs:
        assert not trial.kernels_or_twins(CPU)
    assert not choice.use_triton(torch.zeros(1))
    assert [line["event"] for line in logs] == ["kernels.plain"]
    assert why in logs[0]["why"]


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
