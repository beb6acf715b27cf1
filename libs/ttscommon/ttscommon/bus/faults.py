"""Failures between this process and the broker, by the names the client library has for them."""

from __future__ import annotations

import asyncio
from typing import Final

import nats.errors
import nats.js.errors

from ttscommon.wire.errors import AntiphonError

WRONG_LAST_SEQUENCE: Final = 10071
QUEUE_FULL: Final = 10077
NO_ROOM: Final = 10047
STREAM_NOT_FOUND: Final = 10059

# No answer, or one that says no more than that. It passes, or the connection's end tells.
Unreachable: Final = (nats.errors.Error, nats.js.errors.Error, asyncio.TimeoutError, OSError)


_REFUSALS: Final = ("authorization", "authentication", "credentials", "nkey")


def is_refusal(error: BaseException) -> bool:
    """Whether the broker does not accept who we say we are."""
    return any(word in str(error).lower() for word in _REFUSALS)


# A store that fails for another reason than a limit has the same code.
_LIMIT: Final = "maximum"
_NO_RESOURCES: Final = 10023

# Another write to the subject is under way: it passes.
_IN_FLIGHT: Final = 10164


def is_permanent(error: BaseException) -> bool:
    """Whether the broker refuses this for good, as opposed to now.

    JetStream answers 400 and 404 to what can never work (a message too big, a stream that is
    another one or gone) and 5xx while it has no leader, no quorum or no room.
    """
    refused = isinstance(error, nats.js.errors.BadRequestError | nats.js.errors.NotFoundError)
    return refused and code_of(error) not in (WRONG_LAST_SEQUENCE, _IN_FLIGHT)


def is_queue_full(error: BaseException) -> bool:
    """Whether a stream has as many messages, or bytes, as it may."""
    return code_of(error) == QUEUE_FULL and _LIMIT in str(error).lower()


def is_full(error: BaseException) -> bool:
    """Whether the broker has no room on its disk."""
    code = code_of(error)
    return code in (NO_ROOM, _NO_RESOURCES) or (code == QUEUE_FULL and not is_queue_full(error))


def reason(error: BaseException) -> str:
    """A word for the log: many of these errors have no text."""
    return str(error) or type(error).__name__


def code_of(error: BaseException) -> int | None:
    """The JetStream API's error code, if it is one of its errors."""
    code: int | None = getattr(error, "err_code", None)
    return code


class BusUnprepared(AntiphonError):
    """The broker does not keep what this deployment needs; the text says what to do."""

    code = "bus_unavailable"
