"""Checks that a machine has what kernels on a GPU need, in words, before any of them fails."""

from __future__ import annotations

import os
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from shutil import which


def problems() -> list[str]:
    """What is missing here; empty if nothing is."""
    import torch

    found = compiling()
    if not torch.cuda.device_count():
        found.append("torch sees no GPU: is it a build for CUDA, and is there a driver?")
    return found


def compiling() -> list[str]:
    """What is missing to compile kernels; empty if nothing is."""
    found = []
    if find_spec("triton") is None:
        found.append("Triton is not installed: the kernels are written in it.")
    compiler = os.environ.get("CC") or which("gcc") or which("clang")
    if compiler is None or which(compiler) is None:
        found.append(
            "There is no C compiler ($CC, gcc or clang): Triton builds a launcher for each kernel."
        )
    if not _headers().joinpath("Python.h").is_file():
        found.append(
            f"{_headers()} has no Python.h (Debian: python3-dev): Triton's launchers"
            " are compiled against it."
        )
    return found


def _headers() -> Path:
    # Triton looks there too: Debian's own scheme names a folder below /usr/local.
    scheme = sysconfig.get_default_scheme()
    return Path(
        sysconfig.get_paths("posix_prefix" if scheme == "posix_local" else scheme)["include"]
    )
