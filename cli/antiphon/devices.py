"""Devices that engines compute on, as options of commands name them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typer

# Kernels are compiled and graphs recorded at the first start.
GPU_START_S: Final = 400.0
# Of a machine with an NVIDIA driver: a folder for each GPU.
_GPUS: Final = Path("/proc/driver/nvidia/gpus")


def require_device(name: str) -> None:
    """Raises BadParameter for one that is not there."""
    if name == "cpu":
        return
    # Loading torch takes a second, which other commands need not wait for.
    from ttscommon.engine.device.present import NoDevice, check_device

    try:
        check_device(name)
    except NoDevice as error:
        raise typer.BadParameter(str(error), param_hint="--device") from error


def unused_gpu(folder: Path = _GPUS) -> str | None:
    """What to say to who computes on the CPU beside a GPU; None where there is none."""
    found = sorted(folder.glob("*/information"))
    if not found:
        return None
    lines = found[0].read_text("utf-8", "replace").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    name = models[0] if models else "NVIDIA"
    return f"a GPU is here ({name}), and engines compute on the CPU: --device cuda takes it"
