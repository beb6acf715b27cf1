"""The engine's metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from talker.engine.stream import Stream
from ttscommon.process.metrics import Metrics
from ttscommon.wire.subjects import TALKER
from ttsfamilies.base.talker.guard import SIGNS
from ttsfamilies.base.talker.streams import Caught, Plan

STAGE: Final = TALKER.name
log_ = structlog.get_logger(__name__)
_FOUND: Final = {True: "true", False: "false"}
_CAME: Final = {True: "drawn_again", False: "left"}
_KINDS: Final = {True: "step", False: "prompt"}


class Gauges:
    """Counts launches, chunks, evictions and room."""

    def __init__(self, metrics: Metrics) -> None:
        self._of = metrics
        metrics.evictions.labels()  # counters start at 0
        metrics.shared_positions.labels()
        for found in _FOUND.values():
            metrics.prefixes.labels(found)
        for sign in SIGNS:
            for came in _CAME.values():
                metrics.runaways.labels(sign, came)

    def launched(self, plans: Sequence[Plan]) -> None:
        """A launch of these plans."""
        positions = {True: 0, False: 0}
        for plan in plans:
            positions[plan.decode] += plan.count
        for decode, count in positions.items():
            if count:
                self._of.positions.labels(_KINDS[decode]).inc(count)
        self._of.batch.labels(STAGE).observe(len(plans))

    def gained(self, width: int, frames: float) -> None:
        """A stream's step tried `width` frames."""
        self._of.accepted.labels(str(width)).observe(frames)

    def caught(self, stream: Stream, runaway: Caught) -> None:
        """A stream lost its text."""
        self._of.runaways.labels(runaway.sign, _CAME[runaway.redraw > 0]).inc()
        log_.info("runaway.caught", request_id=stream.key, **runaway._asdict())

    def evicted(self) -> None:
        self._of.evictions.labels().inc()

    def chunk(self, stream: Stream, count: int, now: float) -> None:
        """The stream's next `count` frames were sent."""
        slack_s, before_s = stream.slack_at(now), stream.sent_frames / stream.frame_rate_hz
        first = stream.sent(count, now)
        if stream.offline:
            return
        if first:
            self._of.ttfp.labels(STAGE).observe(now - stream.arrived_s)
        else:
            given_s = slack_s + now - stream.fed_s
            self._of.chunk(STAGE, slack_s, before_s, given_s=given_s)

    def sought(self, positions: int) -> None:
        """A prompt that others may begin with, too, began behind so many that were there."""
        self._of.prefixes.labels(_FOUND[positions > 0]).inc()
        self._of.shared_positions.labels().inc(positions)

    def room(self, streams: int, blocks: tuple[int, int], kept: int) -> None:
        """Open streams; free blocks and all blocks; those of the free that are kept."""
        self._of.prefix_blocks.labels().set(kept)
        free, total = blocks
        self._of.active.labels(STAGE).set(streams)
        self._of.kv_blocks.labels("free").set(free)
        self._of.kv_blocks.labels("used").set(total - free)
