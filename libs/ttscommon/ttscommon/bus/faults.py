"""What goes wrong between us and the broker, by the names the client library has for it."""

from __future__ import annotations

import asyncio
from typing import Final

import nats.errors
import nats.js.errors

WRONG_LAST_SEQUENCE: Final = 10071
STREAM_NAME_IN_USE: Final = 10058
QUEUE_FULL: Final = 10077

# No answer, or one that says no more than that. It passes, or the connection's end tells.
Unreachable: Final = (nats.errors.Error, nats.js.errors.Error, asyncio.TimeoutError, OSError)


def reason(error: BaseException) -> str:
    """A word for the log: many of these errors have no text."""
    return str(error) or type(error).__name__


def code_of(error: BaseException) -> int | None:
    """The JetStream API's error code, if it is one of its errors."""
    code: int | None = getattr(error, "err_code", None)
    return code
