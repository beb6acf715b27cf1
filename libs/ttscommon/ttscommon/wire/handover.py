"""Words between the reaper and workers: jobs that a worker holds, and one that it is to take.

A job goes to a live worker directly where its queue has no leader.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.structs import AsMessagePack

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


# A ping that says so wants to know; any other is only answered.
ASKED: Final = b"?"


class Holding(msgspec.Struct, AsMessagePack, frozen=True):
    """Requests whose jobs of `stage` a worker has: in work, or done and not acknowledged yet."""

    stage: str
    requests: tuple[str, ...]
