"""The device side of a family: steps over rows of tensors, in torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ttsfamilies.base.talker.base import ModelSpec
from ttsfamilies.base.talker.segments import LENGTH


class Attend(Protocol):
    """The attention of one launch over one cache.

    (layer, q, k, v), each [tokens, heads, head_dim], stores k and v and returns the attention of q
    over all positions of its own sequence up to its own.
    """

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Branches:
    """Classifier-free guidance: the streams of a launch's tokens, where one may have two branches.

    Tokens of all first branches come first, one after the other in the order of the rows, then
    those of second branches. owners: [tokens] int64, the slot of each token's stream. second:
    [rows] int64, the index of the last token of each row's second branch; of its first where it has
    no other, so that guidance takes nothing from it there.
    """

    owners: Tensor
    second: Tensor


@dataclass
class Rows:
    """The rows of a launch, one a stream; padding rows have a reserved slot.

    slots: [rows] int64. positions: [tokens] int64, of every token computed, row by row. real: so
    many rows are not padding, and an `Out` may have no more; all of them where shapes are fixed.
    width: tokens of each row of a decode step, all but the first drafted by the model; rounds: so
    many steps, one behind the other, each from where the one before left a row. window:
    frames of each row of a step over segments, from its one position on; 0 for other steps.
    branches: of a family whose specification allows two; then a step has as many tokens as
    branches, or more.
    """

    slots: Tensor
    positions: Tensor
    real: int
    width: int = field(default=1, kw_only=True)
    rounds: int = field(default=1, kw_only=True)
    window: int = field(default=0, kw_only=True)
    branches: Branches | None = field(default=None, kw_only=True)


@dataclass
class Prompts(Rows):
    """Rows of any length, their tokens one after the other.

    inputs: what `ModelSpec.inputs` names, [tokens, ...]. last: [rows] int64, the index of each
    row's last token. samples: [rows] bool, false where the prompt goes on in a later launch.
    """

    inputs: Mapping[str, Tensor]
    last: Tensor
    samples: Tensor


@dataclass
class Out:
    """What a launch gives, on the device, one row a stream.

    frames: raw fields, [rows, width, ...]. gained: [rows] int, how many of them are frames.
    ended: [rows] bool. bad: [rows] bool, not finite: this row fails, alone. kept: [rows] int,
    positions that stay in the cache; None where all of them do.
    """

    frames: Mapping[str, Tensor]
    gained: Tensor
    ended: Tensor
    bad: Tensor
    kept: Tensor | None = None


SlotTensors = Mapping[str, Tensor]
# Shape and type of a row, by name.
Kept = Mapping[str, tuple[tuple[int, ...], torch.dtype]]


class Computation(ABC):
    """What runners compute with. All methods are called by the engine's thread.

    cache_dtype: of keys and values on a device, float32 if None. fixed_prompts: `prefill` has fixed
    shapes and reads nothing back, as `decode` does for all, so that prompts can be recorded too.
    """

    spec: ModelSpec
    cache_dtype: torch.dtype | None = None
    fixed_prompts: bool = False

    @abstractmethod
    def prefill(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        """Compute prompts, and one frame for each that ends here (or all, if not autoregressive).

        `state` has every field as [slots, ...] and is updated in place. Raises before it changes
        any state, or not at all.
        """

    @abstractmethod
    def decode(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        """One step of every row, in fixed shapes and without reading anything back.

        Inputs come from the state. A row whose sequence is over gains nothing and stays as it is.
        """

    def render(self, raw: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Frames of many streams at once, [frames, ...]: raw fields to frame and replay fields."""
        return raw


class TwoPartComputation(Computation):
    """A Computation whose prompts and steps go separate ways up to a point, and then make their
    frames alike, side by side. hidden: what is known of a row at that point.
    """

    hidden: Kept

    def prefill(self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        hidden = self.prompt_hidden(rows, state, attend)
        return self.make_frames(rows.slots, rows.real, state, hidden)

    def decode(self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]) -> Out:
        hidden = self.step_hidden(rows, state, attend)
        return self.make_frames(rows.slots, rows.real, state, hidden)

    @abstractmethod
    def prompt_hidden(
        self, rows: Prompts, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        """The first part of `prefill`: what `hidden` names, [rows, ...]. `state` stays as it is."""

    @abstractmethod
    def step_hidden(
        self, rows: Rows, state: SlotTensors, attend: Mapping[str, Attend]
    ) -> dict[str, Tensor]:
        """The first part of `decode`, likewise."""

    @abstractmethod
    def make_frames(
        self, slots: Tensor, real: int, state: SlotTensors, hidden: Mapping[str, Tensor]
    ) -> Out:
        """The second part of both, of rows of either kind side by side; see Rows and `hidden`."""


# The device side of families that are not autoregressive: passes over segments, and windows.
#
# On the CPU every segment is computed by itself: frames are then the same bits in any company, and
# nothing is gained by computing several at once there. On a device the segments of a launch that
# are equally far go through a pass together, padded to the longest.


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
