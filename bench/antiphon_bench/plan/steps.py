"""Launches of a talker without a network: they take the time of a curve and gain frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

import numpy as np

from antiphon_bench.plan.spoken import PlannedStream
from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Arrays, rows
from ttsfamilies.base.talker.runner import Results, Row
from ttsfamilies.base.talker.streams import Plan
from ttsfamilies.fake.talker import Curve

_MOST: Final = (4096, 16)
_FRAMES: Final = np.zeros((*_MOST, 1), np.int8)

Sleep = Callable[[float], None]


class PlannedRunner:
    """Every launch takes the time of its curve. Drafted frames are accepted by dice, as often as
    they were when the curve was measured.
    """

    depth = 0

    def __init__(self, curve: Curve, sleep: Sleep, think: Sleep) -> None:
        """`sleep` computes for so long, `think` does what the engine does beside its model."""
        self.width = max(curve.drafts, default=1)
        self._curve = curve
        self._sleep, self._think = sleep, think
        self._seconds: dict[tuple[int, int], float] = {}
        self._turns: dict[int, float] = {}
        self._accepted = {w: chance(drafted.gained, w) for w, drafted in curve.drafts.items()}
        self._dice = Random("drafts")

    def record(self, streams: int, positions: int) -> None:
        """Nothing is recorded."""

    def launch(self, batch: Sequence[Row]) -> Results:
        widths = [_width(row.plan) for row in batch]
        self._compute(widths)
        self._think(self._turn(len(batch)))
        gained = [self._gained(row, width) for row, width in zip(batch, widths, strict=True)]
        kept = [_kept(row.plan, count) for row, count in zip(batch, gained, strict=True)]
        never, most = [False] * len(batch), max(gained)
        return Results({"codes": _FRAMES[: len(batch), :most]}, gained, never, never, kept)

    def _compute(self, widths: Sequence[int]) -> None:
        if len(widths) == 1 and widths[0]:  # most of a fleet with room to spare
            self._sleep(self._decoding(widths[0], 1))
            return
        kinds = Counter(widths)
        prompts = kinds.pop(0, 0)
        if prompts and max(kinds, default=1) == 1:
            kinds[1] += prompts  # prompts share a launch with plain steps
        elif prompts:
            self._sleep(self._decoding(1, prompts))
        took_s = sum(self._decoding(width, count) for width, count in kinds.items())
        self._sleep(took_s + self._curve.prefill_s * prompts)

    def _turn(self, streams: int) -> float:
        if streams not in self._turns:
            self._turns[streams] = self._curve.turn_seconds(streams)
        return self._turns[streams]

    def collect(self, ticket: Results) -> Results:
        return ticket

    def paths(self, ticket: Results) -> Sequence[LaunchPath]:
        del ticket
        return ("eager",)

    def render(self, raw: Arrays) -> Arrays:
        if (took_s := self._curve.render_seconds(rows(raw))) > 0.0:
            self._sleep(took_s)
        return raw

    def _decoding(self, width: int, streams: int) -> float:
        if (width, streams) not in self._seconds:
            self._seconds[width, streams] = self._curve.step_seconds(width, streams)
        return self._seconds[width, streams]

    def _gained(self, row: Row, width: int) -> int:
        """Frames: the certain one, and drafted ones up to the first that is not accepted."""
        if width <= 1:
            return int(not row.plan.partial)
        gained, accepted, dice = 1, self._accepted[width], self._dice
        assert isinstance(row.stream, PlannedStream)
        most = min(width, row.stream.left)
        while gained < most and dice.random() < accepted:
            gained += 1
        return gained


def chance(gained: float, width: int) -> float:
    """How likely each drafted frame is accepted behind those before it, if a step that tries
    `width` frames gains so many in the mean: 1 + p + ... + p ** (width - 1).
    """
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if sum(middle**n for n in range(width)) < gained:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _width(plan: Plan) -> int:
    """0 of a prompt."""
    return plan.count if plan.decode else 0


def _kept(plan: Plan, gained: int) -> int:
    """Positions that stay in the cache."""
    return gained if plan.decode else plan.count
