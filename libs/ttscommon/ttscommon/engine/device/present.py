"""Checks that engines can compute on the device that they are given."""

from __future__ import annotations

import re
from typing import Final

import torch

_DEVICE: Final = re.compile(r"cpu|cuda(?::(\d+))?")


class NoDevice(Exception):
    """This machine has no such device; the text says what it has."""


def check_device(name: str) -> None:
    """Raises NoDevice."""
    match = _DEVICE.fullmatch(name)
    if match is None:
        raise NoDevice(f"{name!r} is none of cpu, cuda and cuda:N")
    if name == "cpu":
        return
    if not torch.cuda.is_available():
        build = "this torch was built without CUDA" if torch.version.cuda is None else "no GPU here"
        raise NoDevice(f"{name} cannot be used: {build} (torch {torch.__version__})")
    count = torch.cuda.device_count()
    if int(match[1] or 0) >= count:
        raise NoDevice(f"{name} cannot be used: there are {count} GPUs, from cuda:0 on")


def device_title(name: str) -> str:
    """What it is called, with its memory; raises NoDevice."""
    check_device(name)
    about = torch.cuda.get_device_properties(name)
    return f"{about.name}, {about.total_memory / (1 << 30):.0f} GiB"
