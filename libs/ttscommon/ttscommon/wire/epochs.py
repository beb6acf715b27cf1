"""Epochs, which order the writers of a request's log, and words of a handover to a later one."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.structs import AsMessagePack

# A request's first epoch, for logs whose writers are not workers.
FIRST: Final = 1

_ATTEMPT_BITS: Final = 20
_HANDOVER_BITS: Final = 10
_MOST_DELIVERIES: Final = (1 << (_ATTEMPT_BITS - _HANDOVER_BITS)) - 1
_HANDOVERS: Final = (1 << _HANDOVER_BITS) - 1


def epoch_of(sequence: int, deliveries: int, *, again: bool = False) -> int:
    """The epoch of a delivery; `again`: another message of this request came before this one."""
    attempts = min(deliveries - 1 + again, _MOST_DELIVERIES)
    return (sequence << _ATTEMPT_BITS) + (attempts << _HANDOVER_BITS) + FIRST


def handed_over(epoch: int) -> int:
    """The epoch of the worker that a request of this epoch is handed to directly."""
    if epoch & _HANDOVERS == _HANDOVERS:
        raise OverflowError("a request was handed over too often")
    return epoch + 1


def is_first(epoch: int) -> bool:
    """Whether there can be no earlier writer: the first delivery of a request's first message."""
    return epoch & ((1 << _ATTEMPT_BITS) - 1) == FIRST


def message_of(epoch: int) -> int:
    """The sequence of the job's message."""
    return epoch >> _ATTEMPT_BITS


Answer: TypeAlias = Literal[b"+", b"-"]
"""What the worker says to it; that it has no room is one of many reasons."""

TAKEN: Final[Answer] = b"+"
FULL: Final[Answer] = b"-"


class HandOver(msgspec.Struct, AsMessagePack, frozen=True):
    """The job, the epoch it is to be written with, what its lease said, and its trace's headers."""

    request: SpeechRequest
    epoch: int
    receipt: str
    sequence: int
    deaths: int = 0
    bounces: int = 0
    failures: int = 0
    trace: dict[str, str] = {}
    shared: int = 0
    dead: tuple[str, ...] = ()
    silences: int = 0


# A ping that says so wants to know; any other is answered with seconds, see Worker.
ASKED: Final = b"?"


class Holding(msgspec.Struct, AsMessagePack, frozen=True):
    """Requests whose jobs of `stage` a worker has: in work, or done and not acknowledged yet."""

    stage: str
    requests: tuple[str, ...]
