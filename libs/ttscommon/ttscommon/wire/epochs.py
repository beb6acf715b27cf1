"""Epochs: which writer of a request's log came later.

An epoch is derived from the job's message: its sequence in the stream, how often it was delivered,
and how often it was handed over directly after that. So it is unique, and grows with every worker
that is given the request, whichever way.
"""

from __future__ import annotations

from typing import Final

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
