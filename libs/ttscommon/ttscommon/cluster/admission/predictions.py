"""Predicted and actual times to first sound, and the refusals that follow from them."""

from __future__ import annotations

import math

from ttscommon.cluster.admission.decaying import DecayingAverage
from ttscommon.cluster.admission.floods import Congestion
from ttscommon.cluster.admission.forecast import Forecast
from ttscommon.cluster.admission.limits import AdmissionLimits
from ttscommon.cluster.admission.shares import Standing
from ttscommon.wire.errors import Overloaded, ShareUsed


class Predictions:
    """One gateway's. They are corrected by how much longer first sounds take than predicted."""

    def __init__(self, limits: AdmissionLimits, target_s: float) -> None:
        self._limits = limits
        self._target_s = target_s
        self._bias = DecayingAverage(limits.bias_weight, limits.bias_half_life_s)
        self._congestion = Congestion(limits.floods)

    def learn(self, of_predicted: float, of_alone: float, now: float, *, alone: bool) -> None:
        """A first sound took so many times what was predicted, and what one alone takes."""
        self._bias.learn(min(max(of_predicted, 1.0), self._limits.bias_most), now)
        self._congestion.learn(of_alone, now, alone=alone)

    def congested(self, now: float) -> bool:
        """Whether first sounds take longer than they would for a request alone."""
        return self._congestion.congested(now)

    def check(self, ahead: Forecast, standing: Standing, now: float) -> float | None:
        """How long the first sound would take without correction, in seconds.

        None before anything was measured. Raises Overloaded if it would take too long.
        """
        retry_s = max(1.0, math.ceil(ahead.next_room_s))
        if standing is Standing.OVER:
            if ahead.room <= 0:
                raise Overloaded("there is no room for another stream now", retry_after_s=retry_s)
            raise share_used(retry_s)
        if ahead.ttfp_s is None:
            return None
        most_s = self._limits.borrowed_factor * ahead.alone_s
        if standing is Standing.BORROWED and ahead.ttfp_s > most_s:
            # Borrowed streams fill the batches that another caller's first sound has to wait for.
            raise share_used(retry_s)
        bias = self._bias.now(now)
        predicted_s = ahead.ttfp_s * bias
        # Where even a request alone is too slow for the target, turning it away does not help.
        limit_s = max(self._target_s, self._limits.alone_factor * ahead.alone_s * bias)
        if predicted_s > limit_s:
            raise Overloaded(
                f"the first sound would take {predicted_s:.2f} s, more than {limit_s:.2f} s",
                retry_after_s=retry_s,
            )
        return ahead.ttfp_s


def share_used(retry_s: float) -> ShareUsed:
    """A caller with more streams than its share asks for another."""
    return ShareUsed("this caller has its share of the streams", retry_after_s=retry_s)
