"""One gateway's judgement of new streams: shares, predictions and floods together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ttscommon.cluster.admission.floods import FloodDetector
from ttscommon.cluster.admission.forecast import Forecast
from ttscommon.cluster.admission.limits import AdmissionLimits
from ttscommon.cluster.admission.predictions import Predictions, share_used
from ttscommon.cluster.admission.shares import Shares, Standing


class Judge:
    """Says who may start, and learns from how long first sounds took. The caller brings the clock.

    hold_s: how long a stream keeps its slot, lately. silent: streams without sound, by tenant.
    """

    def __init__(
        self, weights: Mapping[str, float], limits: AdmissionLimits, target_s: float
    ) -> None:
        """`weights`: of tenants. `target_s`: what a first sound may take."""
        self._limits = limits
        self._predictions = Predictions(limits, target_s)
        self._floods = FloodDetector(limits.floods)
        self.shares = Shares(weights)
        self.silent: Counter[str] = Counter()
        self.hold_s = limits.first_hold_s

    def check(
        self, ahead: Forecast, tenant: str, most: int, now: float
    ) -> tuple[Standing, float | None]:
        """How the tenant's next stream relates to its share, and what its first sound would take.

        `most`: streams that this gateway may have. Takes nothing. Raises Overloaded.
        """
        capacity = min(most, self.shares.total + ahead.room)
        standing = self.shares.judge(tenant, capacity, now)
        predicted_s = self._predictions.check(ahead, standing, now)
        self._check_flood(tenant, now)
        return standing, predicted_s

    def refused(self, tenant: str, now: float) -> None:
        """The tenant was refused for lack of room."""
        self._floods.refused(tenant, now)

    def take(self, tenant: str) -> None:
        """A stream starts, without sound so far."""
        self.shares.take(tenant)
        self.silent[tenant] += 1

    def held(self, seconds: float) -> None:
        """A stream kept its slot for so long."""
        self.hold_s += self._limits.hold_weight * (seconds - self.hold_s)

    def learn(
        self, ttfp_s: float, predicted_s: float, alone_s: float, now: float, *, alone: bool
    ) -> None:
        """Compare a prediction with what came of it."""
        self._predictions.learn(ttfp_s / predicted_s, ttfp_s / alone_s, now, alone=alone)

    def _check_flood(self, tenant: str, now: float) -> None:
        """A key that floods has one stream at any rate, and more while others do not feel it."""
        if not self.shares.held[tenant]:
            return
        if self._floods.floods(tenant, self.shares.active(now), now) and (
            self.silent[tenant] or self._predictions.congested(now)
        ):
            raise share_used(1.0)
