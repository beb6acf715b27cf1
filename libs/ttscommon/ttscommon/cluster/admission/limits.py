"""Weights of admission for what it sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ttscommon.cluster.admission.floods import FloodLimits

# A stream whose text pauses counts for nothing after so long: the stages have parked it by then.
REST_S: Final = 1.0


@dataclass(frozen=True)
class AdmissionLimits:
    """How admission weighs what it sees. Origin: docs/performance.md, "Overload, floods".

    A stream beyond its tenant's share gets `borrowed_priority`. How long a stream keeps its slot
    is a moving average that starts at `first_hold_s`. Predictions are corrected by at most
    `bias_most`. A first sound may take `alone_factor` times what it takes a request alone before
    it is refused, a borrowed stream's `borrowed_factor`. A key with limits waits for at most
    `acquaintance_s` where a gateway does not know the others yet. A stream that got neither text
    nor gave sound for `pause_s` may be about to rest, which it does after `rest_s`.
    """

    borrowed_priority: int = 3
    hold_weight: float = 0.1
    first_hold_s: float = 2.0
    bias_weight: float = 0.2
    bias_half_life_s: float = 5.0
    bias_most: float = 4.0
    alone_factor: float = 2.0
    borrowed_factor: float = 1.3
    acquaintance_s: float = 1.0
    pause_s: float = 0.2
    rest_s: float = REST_S
    floods: FloodLimits = field(default_factory=FloodLimits)
