"""This process's knowledge of the broker's store: set by every write, asked before each request.

A broker whose disk is full says so, or nothing at all: 2.15 leaves a write without an answer and
goes on to answer everything else. One that lost its streams has no leader to take a write.
"""

from __future__ import annotations

import asyncio
import time

import nats.js.errors
import structlog

from ttscommon.bus.faults import code_of, is_full, is_refusal, reason
from ttscommon.wire.errors import StoreFull, StoreUnavailable

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
