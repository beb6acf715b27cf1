"""Weights of admission for what it sees."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LoopTuning:
    """How the limit on streams moves. Origin: docs/admission.md."""

    heard_s: float = 0.7
    """Listeners count who have heard so much."""
    low_s: float = 0.4
    """Where one of them has less left, the limit falls."""
    high_s: float = 0.56
    """Where all have more and the limit is used up, it rises."""
    fall: float = 0.8
    """The part of the open streams that it falls to."""
    fall_every_s: float = 1.0
    """It falls once in so long."""
    rise: float = 0.1
    """The part of itself that it rises by in a second."""
    search: float = 0.3
    """The same before its first fall."""
    search_most: float = 1.2
    """The same where the one who has least has three times `high_s` or more; in between it is in
    proportion.
    """
    first: float = 0.5
    """The part of what workers believe that they keep up with at which it begins."""
    floor_s: float = 0.15
    """Where one has less left, the youngest stream without a sound is given up."""
    give_up_every_s: float = 0.2
    """One is given up in so long."""
    weight: float = 0.2
    """Of one first sound in the average of how much each silent stream delays them."""
    first_starts: int = 4
    """So many a worker may be silent before there was a first sound."""
    start_share: float = 0.1
    """The part of the limit that may be silent at any rate: where something else makes first sounds
    late, fewer streams do not help.
    """
    hold_s: float = 0.1
    """A request that there is no room for is held in case there is some by then."""


@dataclass(frozen=True)
class AdmissionLimits:
    """How a gateway weighs what it sees.

    A stream beyond its tenant's share gets `borrowed_priority`. A key with limits waits for at most
    `acquaintance_s` where a gateway does not know the others yet. A stream that got neither text
    nor gave sound for `pause_s` may be about to rest, which it does after `rest_s`: the stages have
    parked it by then. Gateways look
    at their streams every `look_s`, and tell each other what they saw every `tell_s`. A refused
    caller is told to come again within `retry_s`: the limit may be another one by then.
    """

    borrowed_priority: int = 3
    acquaintance_s: float = 1.0
    pause_s: float = 0.2
    rest_s: float = 1.0
    look_s: float = 0.05
    tell_s: float = 0.2
    retry_s: float = 6.0
    loop: LoopTuning = LoopTuning()
