"""Room of workers, from their reports: for autoscaling, and for the first limit of a loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ttscommon.cluster.admission.loop import Streams
from ttscommon.cluster.curves import Line
from ttscommon.wire.replicas import Replica

# This share of a KV cache takes a stream of unknown length.
_SPARE: Final = 0.25


@dataclass(frozen=True)
class View:
    """Live replicas of one model, and how many streams they hold by now."""

    talkers: tuple[Replica, ...]
    vocoders: tuple[Replica, ...]
    busy: int
    frame_rate_hz: float

    @property
    def stages(self) -> tuple[Sequence[Replica], Sequence[Replica]]:
        return self.talkers, self.vocoders


def streams_of(view: View, silent: int, slack_s: float | None, utilisation: float) -> Streams:
    """What a loop is to know. `utilisation`: share of the engines' speed to plan with."""

    return Streams(
        open=view.busy,
        silent=silent,
        slack_s=slack_s,
        least=min(len(stage) for stage in view.stages),
        most=min(sum(min(r.slots, cached_streams(r)) for r in stage) for stage in view.stages),
        expected=min(expected(stage, view.frame_rate_hz, utilisation) for stage in view.stages),
    )


def expected(stage: Iterable[Replica], frame_rate_hz: float, utilisation: float) -> int:
    """How many streams these workers believe that they keep up with, and have the caches for."""
    return sum(
        min(realtime_streams(one, frame_rate_hz, utilisation), cached_streams(one)) for one in stage
    )


def cached_streams(replica: Replica) -> int:
    """How many streams the replica's cache holds, each as long as those in it are on average: a
    talker's KV cache, or what a vocoder's streams carry where that grows.

    A stream more always fits while a quarter of the cache is free: few streams say little of the
    next, and streams give way to one another where the guess was wrong.
    """
    held, open_ = replica.kv_positions - replica.kv_free, replica.slots - replica.free
    if held <= 0 or open_ <= 0:
        return replica.slots
    more = replica.kv_free * open_ // held
    least = int(replica.kv_free >= _SPARE * replica.kv_positions)
    return min(replica.slots, open_ + max(more, least))


def realtime_streams(replica: Replica, frame_rate_hz: float, utilisation: float) -> int:
    """How many streams the replica's engine can keep up with, at most its slots.

    One that is too slow for a single stream takes one all the same, because it will never be
    faster. It takes none while other programs have what it needs, and none of a model that is still
    loading, whose rate is not known.
    """
    if not frame_rate_hz:
        return 0
    period_s = utilisation / frame_rate_hz
    streams = _kept_up(replica, period_s)
    if streams >= 1:
        return min(replica.slots, streams)
    return 0 if _kept_up(replica, period_s * replica.slowed) >= 1 else 1


def _kept_up(replica: Replica, period_s: float) -> int:
    """For how many streams a round takes no longer than `period_s`."""
    if replica.stage == "vocoder":
        round_ = Line(0.0, replica.frame_s)
    elif replica.step_s:
        round_ = Line.through(replica.step_s)
        if round_.at(replica.batch) < period_s:
            # More than a batch take turns, each at the cost of a full one.
            round_ = Line(0.0, round_.at(replica.batch) / replica.batch)
    else:
        return replica.slots
    if round_.stream_s <= 0.0:
        return replica.slots if round_.base_s <= period_s else 0
    return int((period_s - round_.base_s) / round_.stream_s)
