"""What `antiphon doctor --gpu` finds, on a device that is stubbed by the CPU."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from antiphon import doctor_gpu
from antiphon.app import app
from antiphon.printing import Finding, Grade
from tests.late import Late
from ttscommon.engine.device.device import HostDevice, NotRecorded, Recorded
from ttscommon.engine.kernels import blocks_triton, choice

pytest.importorskip("triton")


@pytest.fixture(autouse=True)
def compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is settled here is no other test's."""
    monkeypatch.setattr(doctor_gpu, "compiling", list)
    monkeypatch.setattr(choice, "_version", "auto")


measured = partial(doctor_gpu.step, size="tiny", batch=2, runs=1)


def found(device: HostDevice) -> dict[str, Finding]:
    return {one.name: one for one in doctor_gpu.speaking(device, measured)}


@pytest.mark.slow
def test_a_device_that_computes_is_measured_beside_its_prediction() -> None:
    told = found(Late())
    assert {one.state for name, one in told.items() if name != "step"} == {Grade.GOOD}
    assert "agree with their twins: norm, swiglu" in told["kernels"].text
    assert "2 streams of Qwen3-TTS TINY; predicted" in told["step"].text
    assert "device=cuda" in told["start"].text
    assert choice._version == "auto"


@pytest.mark.slow
def test_what_fails_is_named_and_the_step_is_measured_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: Tensor) -> Tensor:
        raise ValueError("ptxas died")

    class Refusing(HostDevice):
        def _record(self, work: Callable[[], Tensor]) -> Recorded:
            raise NotRecorded("operation not permitted when stream is capturing")

    monkeypatch.setattr(blocks_triton, "swiglu", broken)
    told = found(Refusing())
    assert told["kernels"].state is Grade.NOTE
    assert "1 of 15 fail" in told["kernels"].text
    assert "swiglu: ptxas died" in told["kernels"].text
    assert choice._version == "torch", "as engines do"
    assert "not permitted" in told["graphs"].text
    assert "2 streams of Qwen3-TTS" in told["step"].text


def test_without_a_compiler_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_gpu, "compiling", lambda: ["There is no C compiler."])
    told = doctor_gpu.compiler()
    assert (told.state, "no C compiler" in told.text) == (Grade.NOTE, True)
    assert doctor_gpu.kernels(HostDevice()).state is Grade.NOTE


@pytest.mark.parametrize(
    ("mode", "state"),
    [("Enabled", Grade.NOTE), ("Disabled", Grade.GOOD), ("[N/A]", Grade.GOOD), (None, Grade.NOTE)],
)
def test_a_slice_of_a_gpu_is_said_to_be_one(mode: str | None, state: Grade) -> None:
    assert doctor_gpu.mig(mode).state is state


@pytest.mark.parametrize(
    ("gib", "said"), [(72, "256 streams"), (20, "talker.slots=128"), (1, "talker.slots=8")]
)
def test_slots_are_what_the_memory_holds(gib: int, said: str) -> None:
    assert said in doctor_gpu.advice(gib << 30).text


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu_it_is_bad_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor_gpu, "_DRIVER", tmp_path / "none")
    result = CliRunner().invoke(app, ["doctor", "--gpu", "--json"])
    told: dict[str, Any] = {one["name"]: one for one in json.loads(result.stdout)}
    assert result.exit_code == 1
    assert told["driver"]["state"] == told["GPU"]["state"] == "bad"
    assert "no NVIDIA driver" in told["driver"]["text"]
