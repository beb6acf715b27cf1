"""A job that the reaper hands to a live worker directly, past a queue that has no leader."""

from __future__ import annotations

from typing import Final

import msgspec

from ttscommon.cluster.leases import Lease, StageName
from ttscommon.wire.errors import MalformedMessage
from ttscommon.wire.messages import SpeechRequest

TAKEN: Final = b"+"
FULL: Final = b"-"


class HandOver(msgspec.Struct, frozen=True):
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

    def lease(self, stage: StageName) -> Lease:
        """What the dead worker's lease said of the job's past."""
        return Lease(
            "",
            stage,
            self.request.request_id,
            self.epoch,
            self.receipt,
            self.deaths,
            self.bounces,
            self.failures,
            shared=self.shared,
            dead=self.dead,
            silences=self.silences,
        )

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> HandOver:
        """Raises MalformedMessage."""
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except (msgspec.MsgspecError, ValueError) as error:
            raise MalformedMessage(str(error)) from error
