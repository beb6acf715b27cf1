"""The engine's interface to what computes: launch now, collect in order, perhaps a step later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Array, Arrays
from ttsfamilies.base.talker.streams import Plan, SlotWriter, TalkerStream, seeded


@dataclass(slots=True)
class Row:
    """A stream's part of a launch: what to compute, where its state is, which blocks it owns.

    branch: of rows that `sequences` made, whose blocks are of this branch alone. draw: the number
    of the draw; see Guard.
    """

    stream: TalkerStream
    slot: int
    plan: Plan
    blocks: Sequence[int]
    branch: int = 0
    draw: int = 0

    def stage(self, write: SlotWriter) -> None:
        """See TalkerStream."""
        self.stream.stage(seeded(write, self.draw))


def sequences(rows: Sequence[Row]) -> list[Row]:
    """A row for each branch: the first of all rows, and then the second of those that have two."""
    second = [_of_branch(row, 1) for row in rows if row.stream.branches > 1]
    return [*(_of_branch(row, 0) for row in rows), *second]


def _of_branch(row: Row, branch: int) -> Row:
    if (branches := row.stream.branches) == 1:
        return row
    return Row(row.stream, row.slot, row.plan, row.blocks[branch::branches], branch)


@dataclass(slots=True)
class Results:
    """What a launch gave, one row for each of its rows, on the host.

    frames: raw fields, [rows, width, ...]. gained: frames of each row. kept: positions of each row
    that stay in the cache.
    """

    frames: Arrays
    gained: Sequence[int]
    ended: Sequence[bool]
    bad: Sequence[bool]
    kept: Sequence[int]

    def row(self, row: int) -> dict[str, Array]:
        """The frames that this row gained."""
        gained = self.gained[row]
        return {name: array[row, :gained] for name, array in self.frames.items()}

    @classmethod
    def of(cls, told: Arrays) -> Results:
        """Of all that came back, by name."""
        named = dict(told)
        return cls(named, *(named.pop(name).tolist() for name in _TOLD))

    @classmethod
    def merged(cls, parts: Sequence[tuple[Sequence[int], Results]]) -> Results:
        """Rows of all parts, each where its indices say, as wide as the widest."""
        if len(parts) == 1:
            return parts[0][1]
        every = [part for _, part in parts]
        frames = {
            name: _placed([(indices, part.frames[name]) for indices, part in parts])
            for name in every[0].frames
        }
        order = np.argsort([index for indices, _ in parts for index in indices])
        told = ([flag for part in every for flag in getattr(part, name)] for name in _TOLD)
        return cls(frames, *([flags[index] for index in order] for flags in told))


_TOLD: Final = ("gained", "ended", "bad", "kept")


def _placed(parts: Sequence[tuple[Sequence[int], Array]]) -> Array:
    """Rows [rows, width, ...] of all parts; behind those that are narrower stands nothing."""
    count, first = sum(len(indices) for indices, _ in parts), parts[0][1]
    width = max(array.shape[1] for _, array in parts)
    whole = np.zeros((count, width, *first.shape[2:]), first.dtype)
    for indices, array in parts:
        whole[list(indices), : array.shape[1]] = array
    return whole


class Runner(Protocol):
    """Computes launches in order.

    depth: how many launches may be in flight when the oldest is collected: none where a launch
    blocks until it is computed, one where a device computes while the host works. width: most
    positions of a decode step, all but the first drafted.
    """

    depth: int
    width: int

    def record(self, streams: int, positions: int) -> None:
        """Make launches ready of up to so many streams and positions of prompts: once, before
        there are any. Takes seconds on a device. Raises DeviceError.
        """

    def launch(self, rows: Sequence[Row]) -> Any:
        """Begin to compute, after staging the rows' slots; returns a ticket for `collect`.

        Raises before any state has changed, or raises DeviceError.
        """

    def collect(self, ticket: Any) -> Results:
        """Wait for a launch. Raises DeviceError."""

    def paths(self, ticket: Any) -> Sequence[LaunchPath]:
        """How each part of a launch was computed: see LaunchPath."""

    def render(self, raw: Arrays) -> Arrays:
        """Frames of many streams, one after the other, made ready for the log."""
