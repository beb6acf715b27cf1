"""Reasons why a connection cannot be made, and which of them are final."""

from __future__ import annotations

import asyncio
import time

import structlog

from ttscommon.bus.faults import is_refusal, reason

log_ = structlog.get_logger(__name__)


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
        self._told_s = 0.0

    def saw(self, error: BaseException) -> None:
        """Give up when the credentials have been refused for too long."""
        now = time.monotonic()
        self.last = reason(error)
        refused = is_refusal(error)
        if now - self._told_s >= self._complain_s:
            self._told_s = now
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
        self._refused_s, self._told_s = None, 0.0

    def give_up(self, why: str) -> None:
        self.last = why
        log_.error("bus.failed", error=why)
        self.final.set()
