"""The engine's interface to what computes: launch now, collect in order, perhaps a step later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Array, Arrays, concatenate
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

    def split(self) -> list[Results]:
        """Each row as results of its own."""
        return [
            Results(
                {name: array[i : i + 1] for name, array in self.frames.items()},
                self.gained[i : i + 1],
                self.ended[i : i + 1],
                self.bad[i : i + 1],
                self.kept[i : i + 1],
            )
            for i in range(len(self.gained))
        ]

    @classmethod
    def join(cls, parts: Sequence[Results]) -> Results:
        """The rows of all parts, in order, as wide as the widest."""
        return cls(
            concatenate(_of_one_width([part.frames for part in parts])),
            [gained for part in parts for gained in part.gained],
            [ended for part in parts for ended in part.ended],
            [bad for part in parts for bad in part.bad],
            [kept for part in parts for kept in part.kept],
        )


def _of_one_width(parts: Sequence[Arrays]) -> list[Arrays]:
    """Each with rows of the widest, [rows, width, ...]; what is added means nothing."""
    width = max((array.shape[1] for part in parts for array in part.values()), default=0)
    return [{name: _widened(array, width) for name, array in part.items()} for part in parts]


def _widened(array: Array, width: int) -> Array:
    short = width - array.shape[1]
    if not short:
        return array
    nothing = np.zeros((len(array), short, *array.shape[2:]), array.dtype)
    return np.concatenate([array, nothing], 1)


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
