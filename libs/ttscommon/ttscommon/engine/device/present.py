"""Checks that engines can compute on the device that they are given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import torch

_DEVICE: Final = re.compile(r"cpu|cuda(?::(\d+))?")
_DRIVER: Final = Path("/proc/driver/nvidia/gpus")
# The first that computes in bfloat16.
_LEAST_CAPABILITY: Final = (8, 0)


class NoDevice(Exception):
    """This machine has no such device, or none that serves; the text says what it has."""


def check_device(name: str) -> None:
    """Raises NoDevice."""
    match = _DEVICE.fullmatch(name)
    if match is None:
        raise NoDevice(f"{name!r} is none of cpu, cuda and cuda:N")
    if name == "cpu":
        return
    if not torch.cuda.is_available():
        raise NoDevice(f"{name} cannot be used: {_why()} (torch {torch.__version__})")
    index, count = int(match[1] or 0), torch.cuda.device_count()
    if index >= count:
        raise NoDevice(f"{name} cannot be used: there are {count} GPUs, from cuda:0 on")
    found = torch.cuda.get_device_capability(index)
    if found < _LEAST_CAPABILITY:
        mine, least = (".".join(map(str, one)) for one in (found, _LEAST_CAPABILITY))
        raise NoDevice(
            f"{name} cannot be used: its compute capability is {mine}, and {least} is the least"
        )


def _why() -> str:
    """Why torch sees no GPU. One that the driver has and torch refuses says so when it is begun."""
    if torch.version.cuda is None:
        return "this torch was built without CUDA"
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:
        said = str(error).partition(". ")[0]
        if said and _DRIVER.is_dir():
            return f"a driver is here, and torch says: {said}"
    return "no GPU here"


def device_title(name: str) -> str:
    """What it is called, with its memory and compute capability; raises NoDevice."""
    check_device(name)
    about = torch.cuda.get_device_properties(name)
    memory = f"{about.total_memory / (1 << 30):.0f} GiB"
    return f"{about.name}, {memory}, compute capability {about.major}.{about.minor}"
