"""Engines where they serve, held against their curves: the factors of `Slower`.

A curve is measured by one process that does nothing else, with all of its data in caches. Beside a
gateway, a broker and the other engine the same step takes more of a processor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Final, NamedTuple

import msgspec

from antiphon_bench.plan.calls import ClosedLoop
from antiphon_bench.plan.costs import Curves, Slower
from antiphon_bench.plan.fleet import Fleet
from antiphon_bench.plan.shapes import Setup, Shape

ENGINES: Final = ("talker", "vocoder")
# Cores that other programs take, from which on a measurement says little of engines.
MOST_OTHERS: Final = 0.25
_SPREAD_S: Final = 2.0
_DRAIN_S: Final = 60.0
# Batches follow from how fast steps are, and how fast they are from the batches.
_ROUNDS: Final = 4


class Engines(NamedTuple):
    """Processor seconds of each stage's engine for a second of sound, at a load.

    lengths: characters of its texts. others: cores that other programs took meanwhile.
    """

    users: int
    for_s: float
    lengths: Sequence[int]
    cost_s: Mapping[str, float]
    others: float = 0.0

    @classmethod
    def of(
        cls,
        users: int,
        for_s: float,
        lengths: Sequence[int],
        spent: Mapping[str, float],
        sound_s: float,
        others: float = 0.0,
    ) -> Engines:
        """`spent`: by thread, see spent_s; an engine is the busiest of its process's others."""
        found = {
            stage: max(
                (s for name, s in spent.items() if name.startswith(f"{stage}/")), default=0.0
            )
            for stage in ENGINES
        }
        cost_s = {stage: s / sound_s for stage, s in found.items()}
        return cls(users, for_s, lengths, cost_s, others)


def slower(curves: Curves, alone: Engines, crowded: Engines, cores: int) -> dict[str, Slower]:
    """What has to be multiplied so that simulated engines take what real ones took. Nothing is
    found beside other programs: batches then follow from what those left, and steps share caches
    with them.
    """
    if max(alone.others, crowded.others) > MOST_OTHERS:
        return {}
    found = {stage: Slower() for stage in ENGINES}
    for _ in range(_ROUNDS):
        costs = msgspec.structs.replace(curves.costs, slower=found)
        served = msgspec.structs.replace(curves, costs=costs)
        one, many = (_simulated(served, load, cores) for load in (alone, crowded))
        found = {
            stage: Slower(
                round(found[stage].alone * alone.cost_s[stage] / one[stage], 3),
                round(found[stage].crowded * crowded.cost_s[stage] / many[stage], 3),
            )
            for stage in ENGINES
        }
    return found


def _simulated(curves: Curves, load: Engines, cores: int) -> dict[str, float]:
    """The same for simulated engines."""
    fleet = Fleet(Setup(curves, Shape(nodes=1, cores=cores, beside=load.others)))
    lengths: Iterator[int] = cycle(load.lengths)
    users = ClosedLoop(load.users, lengths, load.for_s, _SPREAD_S)
    sound_s = sum(fleet.run(users, load.for_s + _DRAIN_S).sound_s)
    stages = {"talker": fleet.talkers.workers, "vocoder": fleet.vocoders.workers}
    return {stage: sum(one.busy_s for one in found) / sound_s for stage, found in stages.items()}
