"""The streams that the next step may hold: listeners', and of jobs' what those leave."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from talker.engine.stream import Stream
from ttscommon.engine.offline import OfflineShare
from ttscommon.engine.slots import Slots
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS

Planned = Callable[[Iterable[Stream]], list[Stream]]


def candidates(
    streams: Slots[Stream], offline: OfflineShare, most: int, now: float, planned: Planned
) -> list[Stream]:
    """Those that can step and may, each with its plan.

    most: streams of jobs in a step where no listener is expected. planned: plans for streams, and
    gives those that can step.
    """
    heard = [stream for stream in streams if not stream.offline]
    ready = planned(heard)
    if heard:
        offline.heard(now)
    alone = len(heard) == len(streams) or offline.pause_s(now) > 0.0
    if alone or any(stream.needs(offline.tuning.slack_s, now) for stream in heard):
        return ready
    most = offline.size if offline.expects(now) else most
    return [*ready, *_first(streams, most, planned)]


def _first(streams: Slots[Stream], most: int, planned: Planned) -> list[Stream]:
    """As many of jobs as may step, as they came."""
    found: list[Stream] = []
    for stream in sorted((s for s in streams if s.offline), key=lambda s: s.arrived_s):
        if len(found) == most:
            break
        found += planned((stream,))
    return found


def positions(
    streams: Iterable[Stream], blocks: Callable[[str], Collection[int]]
) -> tuple[int, int]:
    """Of the cache: what listeners' streams will have taken, and what others hold. blocks: of a
    stream.
    """
    expected = yielding = 0
    for stream in streams:
        if stream.offline:
            yielding += BLOCK_POSITIONS * len(blocks(stream.key))
        else:
            expected += stream.lanes * stream.model.extent
    return expected, yielding


__all__ = ["candidates", "positions"]
