"""Where kernels do not compile, or compute something else, their twins speak."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from structlog.testing import capture_logs
from torch import Tensor

from ttscommon.engine.kernels import blocks_triton, choice, trial
from ttscommon.engine.kernels.choice import only

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a device; what is settled here is no other test's."""
    monkeypatch.setattr(trial, "compiling", list)
    with only("triton"):
        yield


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
    assert told == [("kernels.plain", "AssertionError()")]


def test_a_kernel_that_computes_something_else_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocks_triton, "swiglu", lambda x: x[:, :32] * 0)
    with capture_logs() as logs:
        assert not trial.kernels_or_twins(CPU)
    assert "off its twin" in logs[0]["why"]


def test_without_a_compiler_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "compiling", lambda: ["There is no C compiler."])
    with capture_logs() as logs:
        assert not trial.kernels_or_twins(CPU)
    assert logs[0]["why"] == "There is no C compiler."
