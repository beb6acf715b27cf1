"""A GPU where none is: the CPU, as late as a device may be, for whoever asks for `cuda`.

`python -m tests.stubbed_gpu` is `antiphon.pair` on such a GPU, whose compiler refuses every kernel
and whose driver refuses every graph.
"""

import os
import runpy
from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from tests.late import Late
from ttscommon.engine.device import device
from ttscommon.engine.device.device import NotRecorded, Recorded
from ttscommon.engine.kernels import choice, trial
from ttsfamilies.base.talker.options import ModelOptions

# Kernels run in Triton's interpreter, which has to be chosen before Triton is imported.
os.environ.setdefault("TRITON_INTERPRET", "1")


class StubbedGpu(Late):
    """Takes the place of Cuda."""

    def __init__(self, index: int = 0, priority: int = 0) -> None:
        del index, priority
        super().__init__()

    def free_bytes(self) -> int:
        return 256 << 20


class WithoutGraphs(StubbedGpu):
    """Records nothing."""

    def _record(self, work: Callable[[], Tensor]) -> Recorded:
        raise NotRecorded("operation not permitted when stream is capturing")


def stub(patch: pytest.MonkeyPatch, gpu: type[StubbedGpu] = StubbedGpu) -> None:
    """Kernels compute there unless they fail; weights stay float32, as the interpreter needs."""
    patch.setattr(device, "Cuda", gpu)
    patch.setattr(trial, "compiling", list)
    patch.setattr(choice, "_version", "triton")
    patch.setattr(ModelOptions, "dtype", "float32")


def break_compiler(patch: pytest.MonkeyPatch) -> None:
    """Every kernel is refused, as by an assembler that is too old."""
    from triton.runtime.errors import PTXASError
    from triton.runtime.interpreter import InterpretedFunction

    def refuse(self: Any, *_: Any, **__: Any) -> None:
        raise PTXASError("ptxas died")

    patch.setattr(InterpretedFunction, "run", refuse)


if __name__ == "__main__":
    patched = pytest.MonkeyPatch()
    stub(patched, WithoutGraphs)
    break_compiler(patched)
    runpy.run_module("antiphon.pair", run_name="__main__")
