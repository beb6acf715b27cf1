"""Threads that compute step aside for those that pass messages on.

A first sound crosses a dozen threads, each of which works for a fraction of a millisecond. On a
processor that computes, the kernel has each of them wait until the turn of what runs there is over,
up to 4 ms a hop, unless its own turn is shorter. So engines ask for long ones: they get the same
share of the processor, in fewer pieces. Linux 6.12 and later; others leave all as it is.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from typing import Any, Final, NamedTuple

TURN_NS: Final = 5_000_000
# struct sched_attr, see sched_setattr(2): size, policy, flags, nice, priority, runtime, deadline,
# period, and the clamps of utilisation.
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQII")
_CALLS: Final = {"x86_64": (315, 314), "aarch64": (275, 274)}
"""Numbers of sched_getattr and sched_setattr."""
_FAIR: Final = 0, 3  # the usual policy, and the one of batches


class Turns(NamedTuple):
    """How the kernel schedules a thread. turn_ns: 0 where turns have no length of their own."""

    policy: int
    flags: int
    nice: int
    turn_ns: int


def step_aside() -> bool:
    """Have the thread that asks take long turns; whether the kernel has agreed.

    Its policy and nice value stay as they are.
    """
    turns = turns_here()
    if turns is None or turns.policy not in _FAIR:
        return False
    size = _ATTRIBUTES.size
    wanted = _ATTRIBUTES.pack(size, turns.policy, turns.flags, turns.nice, 0, TURN_NS, 0, 0, 0, 0)
    return not _call(1, wanted, 0)


def turns_here() -> Turns | None:
    """Of the thread that asks; None where that is not known."""
    room = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if platform.system() != "Linux" or _call(0, room, _ATTRIBUTES.size, 0):
        return None
    _, policy, flags, nice, _, turn_ns, *_ = _ATTRIBUTES.unpack(room.raw)
    return Turns(policy, flags, nice, turn_ns)


def _call(which: int, *arguments: Any) -> int:
    """0 if the kernel did it, for the thread that asks."""
    calls = _CALLS.get(platform.machine())
    return -1 if calls is None else int(ctypes.CDLL(None).syscall(calls[which], 0, *arguments))
