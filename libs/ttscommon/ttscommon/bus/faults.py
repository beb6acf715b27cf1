"""Failures between this process and the broker, and what is known of the broker's store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import nats.errors
import nats.js.errors
import structlog

from ttscommon.wire.errors import AntiphonError, BusUnavailable, StoreFull, StoreUnavailable

WRONG_LAST_SEQUENCE: Final = 10071
QUEUE_FULL: Final = 10077
NO_ROOM: Final = 10047
STREAM_NOT_FOUND: Final = 10059

# No answer, or one that says no more than that. It passes, or the connection's end tells.
Unreachable: Final = (nats.errors.Error, nats.js.errors.Error, asyncio.TimeoutError, OSError)


@contextmanager
def available(otherwise: str) -> Iterator[None]:
    """What keeps the broker from answering within is raised as BusUnavailable, which says so."""
    try:
        yield
    except Unreachable as error:
        raise BusUnavailable(otherwise) from error


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


class BusUnprepared(AntiphonError, code="bus_unavailable"):
    """The broker does not keep what this deployment needs; the text says what to do."""


log_ = structlog.get_logger(__name__)


class StoreState:
    """`problem`: why nothing can be stored now, None while all seems well."""

    def __init__(self) -> None:
        self.problem: StoreUnavailable | None = None
        self.kept_s = float("-inf")
        self._problem_s = float("-inf")
        self.doubted = asyncio.Event()
        self.queues_lost_s = float("-inf")
        """When a queue was last seen to be gone, or to be another of its name: no worker gets the
        jobs that waited in it.
        """
        self._found_s: dict[str, float] = {}
        self._deaf: set[str] = set()

    def require(self) -> None:
        """Raises StoreUnavailable while nothing can be stored."""
        if self.problem is not None:
            raise self.problem.again()

    # Told by writes

    def kept(self, stream: str) -> None:
        """The stream has taken a write."""
        self.kept_s = time.monotonic()
        self._deaf.discard(stream)

    def missed(self, stream: str, began_s: float, error: BaseException) -> None:
        """The stream has not taken a write that began at `began_s`."""
        if is_full(error):
            self.find(StoreFull(f"the broker cannot store: {reason(error)}"))
        elif isinstance(error, nats.js.errors.APIError) and code_of(error) is not None:
            return  # an answer to this write alone
        elif began_s > self._found_s.get(stream, float("inf")):
            self._deaf.add(stream)
        self.doubted.set()

    # Told by looks

    def found(self, stream: str) -> None:
        """Its leader answers."""
        self._found_s.setdefault(stream, time.monotonic())

    def unseen(self, stream: str) -> None:
        """Its leader does not answer: that it takes no writes says no more."""
        self._found_s.pop(stream, None)
        self._deaf.discard(stream)

    def lost_queue(self, stream: str) -> None:
        """It is gone with the jobs in it, even if there is one of its name."""
        log_.error("store.queue_lost", stream=stream)
        self.queues_lost_s = time.monotonic()

    @property
    def takes(self) -> bool:
        """It has taken a write since the problem was seen last."""
        return self.kept_s > self._problem_s

    def deaf(self, stream: str, silent_s: float) -> bool:
        """It answers questions but no writes, and no other stream has taken one for `silent_s`."""
        return stream in self._deaf and time.monotonic() - self.kept_s >= silent_s

    def forget(self) -> None:
        """The connection was lost: writes that got no answer since say nothing."""
        self._found_s.clear()
        self._deaf.clear()

    def find(self, problem: StoreUnavailable) -> None:
        """Nothing can be stored from now on."""
        if type(problem) is not type(self.problem):
            log_.error("store.unavailable", code=problem.code, error=problem.message)
        self.problem, self._problem_s = problem, time.monotonic()

    def heal(self) -> None:
        """All is well again."""
        if self.problem is not None:
            log_.info("store.available")
        self.problem = None
        self._deaf.clear()


class Trouble:
    """What keeps a connection from being made: told at intervals, and to an end if it is final.

    Seconds: `refused_s`, `complain_s`: see LinkTuning.
    """

    def __init__(self, refused_s: float, complain_s: float) -> None:
        self.final = asyncio.Event()
        self.last = ""
        self._most_s = refused_s
        self._complain_s = complain_s
        self._refused_s: float | None = None
        self._logged_s = 0.0

    def saw(self, error: BaseException) -> None:
        """Give up when the credentials have been refused for too long."""
        now = time.monotonic()
        self.last = reason(error)
        refused = is_refusal(error)
        if now - self._logged_s >= self._complain_s:
            self._logged_s = now
            if refused:
                log_.error("bus.refused", error=self.last)
            else:
                log_.warning("bus.unreachable", error=self.last)
        if not refused:
            return
        self._refused_s = now if self._refused_s is None else self._refused_s
        if now - self._refused_s >= self._most_s:
            self.give_up(f"the broker refuses the credentials: {self.last}")

    def over(self) -> None:
        """There is a connection."""
        self._refused_s, self._logged_s = None, 0.0

    def give_up(self, why: str) -> None:
        self.last = why
        log_.error("bus.failed", error=why)
        self.final.set()
