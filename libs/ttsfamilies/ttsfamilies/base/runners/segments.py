"""The device side of families that are not autoregressive: passes over segments, and windows.

On the CPU every segment is computed by itself: frames are then the same bits in any company, and
nothing is gained by computing several at once there. On a device the segments of a launch that are
equally far go through a pass together, padded to the longest.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ttsfamilies.base.runners.computation import (
    Attend,
    Computation,
    Out,
    Prompts,
    Rows,
    SlotTensors,
)
from ttsfamilies.base.talker.segments import LENGTH


class Segments(NamedTuple):
    """Segments that a pass reads together. slots: [rows] int64. lengths: ids of each."""

    slots: Tensor
    lengths: tuple[int, ...]

    @property
    def real(self) -> Tensor:
        """[rows, ids] bool: what is not padding."""
        lengths = torch.tensor(self.lengths, device=self.slots.device)
        return torch.arange(max(self.lengths), device=self.slots.device) < lengths[:, None]


class SegmentComputation(Computation):
    """A Computation of segments; see family.segments.SegmentStream.

    Frames come with their PLACE. apart: segments are computed one by one, see above.
    """

    apart: bool = True

    def prefill(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        """Passes over segments, and whatever frames a prompt gives by itself.

        Reads back how far each row is, which on a device waits for the launch before.
        """
        del attend
        found: dict[int, Out] = {}
        for group, (first, last, ends) in self._groups(rows, state).items():
            slots = rows.slots[list(group)]
            lengths = tuple(int(state[LENGTH][slot]) for slot in slots)
            segments = Segments(slots, lengths)
            for index in range(first, last):
                self.read(index, segments, state)
            given = self.begun(segments, state) if ends else self.nothing(len(group), slots.device)
            found.update(zip(group, split(given), strict=True))
        padding = split(self.nothing(1, rows.slots.device))[0]
        return joined([found.get(row, padding) for row in range(rows.real)])

    def decode(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        """A window of each row."""
        del attend
        slots, starts, count = rows.slots, rows.positions, rows.window
        if not self.apart:
            return self.frames(slots, starts, count, state)
        alone = [slice(row, row + 1) for row in range(rows.real)]
        return joined([self.frames(slots[row], starts[row], count, state) for row in alone])

    def _groups(
        self, rows: Prompts, state: SlotTensors
    ) -> dict[tuple[int, ...], tuple[int, int, bool]]:
        """Rows that are computed together, with their first pass, the one behind their last, and
        whether it is the segments' last. Padding, whose slot never holds a segment, is in none.
        """
        last = rows.last[: rows.real].tolist()
        begins = [0, *(index + 1 for index in last[:-1])]
        ids = state[LENGTH].index_select(0, rows.slots[: rows.real]).tolist()
        at = rows.positions[begins].tolist(), rows.positions[last].tolist()
        alike: dict[tuple[int, int, bool], list[int]] = defaultdict(list)
        for row, (start, end, count, ends) in enumerate(
            zip(*at, ids, rows.samples[: rows.real].tolist(), strict=True)
        ):
            if count:
                alike[start // count, (end + 1) // count, ends].append(row)
        if self.apart:
            return {(row,): passes for passes, group in alike.items() for row in group}
        return {tuple(group): passes for passes, group in alike.items()}

    @abstractmethod
    def read(self, index: int, segments: Segments, state: SlotTensors) -> None:
        """Pass `index` over segments: whatever it leaves is in their slots' state."""

    def begun(self, segments: Segments, state: SlotTensors) -> Out:
        """What a prompt gives when its last pass is done: no frames, or the first, or all."""
        del state
        return self.nothing(len(segments.lengths), segments.slots.device)

    @abstractmethod
    def frames(self, slots: Tensor, starts: Tensor, count: int, state: SlotTensors) -> Out:
        """`count` frames of each segment from its start on, as far as it has them, and whether it
        ends with them: [rows, count, ...]. Any frame of a segment that has been read, even behind
        its end. Of the slot of padding anything.
        """

    def nothing(self, rows: int, device: torch.device) -> Out:
        """No frame of so many rows."""
        none = torch.zeros(rows, dtype=torch.int64, device=device)
        return Out(self.no_frames(rows), none, none.bool(), none.bool())

    @abstractmethod
    def no_frames(self, rows: int) -> dict[str, Tensor]:
        """Fields of a frame with PLACE: [rows, window, ...] zeros, of no frame on the CPU."""


def split(out: Out) -> list[Out]:
    """Each row by itself."""
    rows = (slice(row, row + 1) for row in range(len(out.gained)))
    return [
        Out({n: t[r] for n, t in out.frames.items()}, out.gained[r], out.ended[r], out.bad[r])
        for r in rows
    ]


def joined(outs: Sequence[Out]) -> Out:
    """Rows of all, as wide as the widest."""
    if len(outs) == 1:
        return outs[0]
    frames = {
        name: torch.cat(_of_one_width([out.frames[name] for out in outs]))
        for name in outs[0].frames
    }
    told = (torch.cat([getattr(o, n) for o in outs]) for n in ("gained", "ended", "bad"))
    return Out(frames, *told)


def _of_one_width(parts: Sequence[Tensor]) -> list[Tensor]:
    width = max(part.shape[1] for part in parts)
    if all(part.shape[1] == width for part in parts):
        return list(parts)
    wide = [part.new_zeros(len(part), width, *part.shape[2:]) for part in parts]
    for into, part in zip(wide, parts, strict=True):
        into[:, : part.shape[1]] = part
    return wide
