"""The choice of a kernel's version: Triton's on a CUDA device, numba's on a processor, or torch.

The plain version in torch (the *twin*) defines what a kernel computes. Modules that hold Triton's
or numba's code are imported only where it runs: a processor needs no Triton, and a process that
computes on a GPU no compiler for processors.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

import structlog
import torch
from torch import Tensor

Version = Literal["auto", "torch", "triton", "numba"]

_version: Version = "auto"
_own = threading.local()


def _chosen() -> Version:
    version: Version = getattr(_own, "version", _version)
    return version


@cache
def available() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


def use_triton(like: Tensor) -> bool:
    """Whether a kernel over `like` is to be Triton's."""
    version = _chosen()
    if version == "auto":
        return like.is_cuda and available()
    return version == "triton"


@cache
def compiles() -> bool:
    """Whether kernels for processors can be compiled here. Says so once where they cannot, and
    torch computes instead.
    """
    try:
        import_module("ttscommon.engine.kernels.products_numba")
    except Exception as error:  # noqa: BLE001 (of numba, of LLVM, or of what either needs)
        structlog.get_logger("kernels").warning("kernels.not_compiled", error=repr(error))
        return False
    return True


def use_numba(like: Tensor) -> bool:
    """Whether a kernel over `like` is to be numba's; those compute float32, in which training with
    autocast does not, and no gradients.
    """
    if _chosen() not in ("auto", "numba") or torch.is_grad_enabled():
        return False
    if torch.is_autocast_enabled("cpu"):
        return False
    return like.is_cpu and like.dtype == torch.float32 and compiles()


def settle(version: Version) -> None:
    """Run one version in this process from now on."""
    global _version
    _version = version


@contextmanager
def only(version: Version) -> Iterator[None]:
    """Run one version in this thread, for trials, tests (in Triton's interpreter) and comparisons.

    Another stage may compute in this process meanwhile.
    """
    before = getattr(_own, "version", None)
    _own.version = version
    try:
        yield
    finally:
        if before is None:
            del _own.version
        else:
            _own.version = before
