"""A forecast of what the next request would get, from the replicas' reports. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ttscommon.cluster.curves import Line
from ttscommon.wire.replicas import Replica

# A first chunk: the step under way, the prefill, two decode steps; then the vocoder's step under
# way and its own.
_TALKER_STEPS: Final = 4
_VOCODER_STEPS: Final = 2
_HOPS_S: Final = 0.006
# This share of a KV cache takes a stream of unknown length.
_SPARE: Final = 0.25


@dataclass(frozen=True)
class View:
    """Live replicas of one model, and how many streams they hold by now."""

    talkers: tuple[Replica, ...]
    vocoders: tuple[Replica, ...]
    busy: int
    frame_rate_hz: float


@dataclass(frozen=True)
class Forecast:
    """`ttfp_s` of the next request, None before anything was measured; streams of `room` left.

    `alone_s`: what it would be if it were alone. `next_room_s`: when a stream that ends is
    expected to make room.
    """

    ttfp_s: float | None
    alone_s: float
    room: int
    next_room_s: float


def forecast(view: View, hold_s: float, utilisation: float) -> Forecast:
    """`hold_s`: how long a stream keeps its slot. `utilisation`: share of the speed to plan with.

    Room is bounded by slots, by what can be spoken in real time, since a stream more than that
    would let every listener run dry, and by what the caches of both stages hold. More than the room
    may be busy; then requests wait.
    """
    slots = min(sum(r.slots for r in stage) for stage in (view.talkers, view.vocoders))
    realtime = min(
        _realtime(view.talkers, view.frame_rate_hz, utilisation),
        _realtime(view.vocoders, view.frame_rate_hz, utilisation),
    )
    cached = min(sum(map(cached_streams, stage)) for stage in (view.talkers, view.vocoders))
    capacity = min(slots, realtime, cached)
    queued = max(0, view.busy + 1 - slots, *(r.queued for r in (*view.talkers, *view.vocoders)))
    next_room_s = hold_s / max(1, capacity)
    steps_s, alone_s = _steps_s(view, view.busy + 1), _steps_s(view, 1)
    ttfp_s = None if steps_s is None else steps_s + _HOPS_S + queued * next_room_s
    return Forecast(ttfp_s, (alone_s or 0.0) + _HOPS_S, capacity - view.busy, next_room_s)


def _steps_s(view: View, streams: int) -> float | None:
    """A first sound's share of engine steps, with `streams` in the batches; None if unmeasured."""
    total = 0.0
    for replicas, steps in ((view.talkers, _TALKER_STEPS), (view.vocoders, _VOCODER_STEPS)):
        measured = [r for r in replicas if r.step_s]
        if not measured:
            return None
        each = math.ceil(streams / len(replicas))
        slowest = max(Line.through(r.step_s).at(min(each, r.batch)) for r in measured)
        total += steps * slowest
    return total


def _realtime(replicas: Sequence[Replica], frame_rate_hz: float, utilisation: float) -> int:
    """Streams whose frames all come in time; a replica that has not measured counts its slots."""
    return sum(realtime_streams(replica, frame_rate_hz, utilisation) for replica in replicas)


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
    faster. It takes none while other programs have what it needs.
    """
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
