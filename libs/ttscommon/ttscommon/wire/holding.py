"""A worker's list of the jobs that it holds, as its answer to the reaper's ping."""

from __future__ import annotations

from typing import Final

import msgspec

from ttscommon.wire.errors import MalformedMessage

# A ping that says so wants to know; any other is only answered.
ASKED: Final = b"?"


class Holding(msgspec.Struct, frozen=True):
    """Requests whose jobs of `stage` a worker has: in work, or done and not acknowledged yet."""

    stage: str
    requests: tuple[str, ...]

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Holding:
        """Raises MalformedMessage."""
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except (msgspec.MsgspecError, ValueError) as error:
            raise MalformedMessage(str(error)) from error
