"""Devices that engines compute on, as options of commands name them."""

from __future__ import annotations

from typing import Final

import typer

# Kernels are compiled and graphs recorded at the first start.
GPU_START_S: Final = 400.0


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
