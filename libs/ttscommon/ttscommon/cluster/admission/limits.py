"""Weights of admission for what it sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# A stream whose text pauses counts for nothing after so long: the stages have parked it by then.
REST_S: Final = 1.0


@dataclass(frozen=True)
class LoopTuning:
    """How the limit on streams moves. Origin: docs/admission.md.

    Listeners count who have heard `heard_s`. Where one of them has less than `low_s` left, the
    limit falls to `fall` times what is open, once in `fall_every_s`; where all have more than
    `high_s` and it is used up, it rises by `rise` of itself a second, before its first fall by
    `search`.
    It begins with `first` of what workers believe that they keep up with. Where one has less than
    `floor_s`, the youngest stream without a sound is given up, once in `give_up_every_s`.

    How much each silent stream delays first sounds is a moving average in which one counts
    `weight`; before there was any, `first_starts` of the limit may be silent. `start_share` of it
    may be at any rate: where something else makes first sounds late, fewer streams do not help.
    """

    heard_s: float = 0.7
    low_s: float = 0.4
    high_s: float = 0.56
    fall: float = 0.8
    fall_every_s: float = 1.0
    rise: float = 0.1
    search: float = 0.3
    first: float = 0.5
    floor_s: float = 0.15
    give_up_every_s: float = 0.2
    weight: float = 0.2
    first_starts: float = 0.25
    start_share: float = 0.1


@dataclass(frozen=True)
class AdmissionLimits:
    """How a gateway weighs what it sees.

    A stream beyond its tenant's share gets `borrowed_priority`. A key with limits waits for at most
    `acquaintance_s` where a gateway does not know the others yet. A stream that got neither text
    nor gave sound for `pause_s` may be about to rest, which it does after `rest_s`. A request that
    there is no room for is held for `hold_s`, or for as long as it would wait. Gateways look at
    their streams every `look_s`, and tell each other what they saw every `tell_s`.
    """

    borrowed_priority: int = 3
    acquaintance_s: float = 1.0
    pause_s: float = 0.2
    rest_s: float = REST_S
    hold_s: float = 0.1
    look_s: float = 0.05
    tell_s: float = 0.2
    loop: LoopTuning = LoopTuning()
