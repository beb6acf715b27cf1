"""Requests that find no room: counted, logged, and told when to come back."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from typing import Final

import structlog

from gateway.admission.control import Applicant, Grant
from gateway.errors import RateLimited, StreamsUsed
from ttscommon.cluster.admission import Ends
from ttscommon.process.metrics import GatewayMetrics
from ttscommon.wire.errors import AntiphonError, Overloaded, ShareUsed

_LONGEST_RETRY_S: Final = 60
_LOG_EVERY_S: Final = 1.0

log_ = structlog.get_logger(__name__)


class Refusals:
    """Of one gateway. retry_s: callers are told to stay away for so long at most, unless what they
    wait for is a stream of their own.
    """

    def __init__(self, metrics: GatewayMetrics, retry_s: float) -> None:
        self.ends = Ends()
        self._metrics, self._retry_s = metrics, retry_s
        self._counts: Counter[tuple[str, str, str, str]] = Counter()
        self._logged_s = -math.inf

    def take(
        self, applicant: Applicant, error: AntiphonError, running: Collection[Grant], now: float
    ) -> None:
        """A request is refused with an error, which is told when to come back. The portions of a
        job are only told. running: the streams of this gateway.
        """
        if not applicant.offline:
            listener = self._metrics.listener(applicant.model, applicant.tenant)
            self._metrics.refused.labels(error.code, *listener).inc()
            self._counts[applicant.tenant, applicant.model, error.code, error.message] += 1
        if isinstance(error, Overloaded):
            self._say_when(error, applicant, running, now)

    def flush(self, now: float) -> None:
        """Log what is to be logged: one line a second for each kind, with their number."""
        if not self._counts or now - self._logged_s < _LOG_EVERY_S:
            return
        self._logged_s = now
        for (tenant, model, code, reason), count in self._counts.items():
            log_.info(
                "request.refused",
                tenant=tenant, model=model, code=code, reason=reason, count=count,
            )  # fmt: skip
        self._counts.clear()

    def _say_when(
        self, error: Overloaded, applicant: Applicant, running: Collection[Grant], now: float
    ) -> None:
        """Tell the caller when a stream in its way is expected to have ended.

        A key that has used up its minute was told already when it may come back.
        """
        if isinstance(error, RateLimited) and not isinstance(error, StreamsUsed):
            return
        kind, streams = applicant.kinds[0], [g for g in running if g.model == applicant.model]
        mine = [g for g in running if g.tenant == applicant.tenant]
        if mine and isinstance(error, StreamsUsed | ShareUsed):
            kind, streams = applicant.kinds[1], mine
        most_s = _LONGEST_RETRY_S if isinstance(error, StreamsUsed) else self._retry_s
        wait_s = self.ends.promise(kind, streams, now, most_s)
        if wait_s is not None:
            error.retry_after_s = max(error.retry_after_s, wait_s)
