"""Both sides of a family in one: what all families that compute with torch are."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import NamedTuple

import structlog
import torch
from torch import Tensor, nn

from ttscommon.engine.device.device import Device
from ttscommon.engine.nn.lora import AdapterBank
from ttscommon.engine.nn.weights import Sources
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.parameters import ADAPTER
from ttsfamilies.base.runners.computation import (
    Attend,
    Computation,
    Out,
    Prompts,
    Rows,
    SlotTensors,
)
from ttsfamilies.base.runners.device_runner import DeviceRunner
from ttsfamilies.base.runners.torch_runner import TorchRunner
from ttsfamilies.base.sampling import Noise
from ttsfamilies.base.talker.base import NUMBER, Family
from ttsfamilies.base.talker.segments import LENGTH
from ttsfamilies.base.talker.streams import Runner

log_ = structlog.get_logger(__name__)


class TalkerModel(Family, Computation):
    """A family with its device side.

    noise: what ids are drawn by. device: where its weights are, if not on the CPU, and what
    computes there. most_positions: of a prompt and its speech, where the cache holds fewer than the
    specification allows.
    """

    noise: type[Noise] = Noise
    device: Device | None = None
    most_positions: int | None = None

    @property
    def positions(self) -> int:
        """Of a prompt and its speech."""
        return min(self.spec.max_positions, self.most_positions or self.spec.max_positions)

    def fit(self, positions: int) -> None:
        self.most_positions = positions

    def compute_on(self, device: Device | None) -> None:
        """From now on runners launch there, and a step behind; the weights are there already."""
        self.device = device
        self.depth, self.exact = int(device is not None), device is None
        if device is not None and self.cache_dtype is not None:
            self.cache_itemsize = self.cache_dtype.itemsize

    def aside(self) -> AbstractContextManager[object]:
        return nullcontext() if self.device is None else self.device.aside()

    def adapt(self, slots: int, most_rank: int) -> None:
        """Have place for so many adapters, before a runner is made; see Adaptable.

        A family that cannot is served without, as its `accepts` says.
        """
        log_.warning("adapters.unsupported", family=self.spec.family, adapters=slots)

    def free_bytes(self) -> int | None:
        return None if self.device is None else self.device.free_bytes()

    def runner(self, rows: int, blocks: int, depth: int) -> Runner:
        if self.device is not None:
            return DeviceRunner(self, rows, blocks, self.device, depth)
        return TorchRunner(self, rows, blocks, depth)


# A family whose networks can be adapted: one bank of adapters, and the row's one in its state.


class AdaptedParts(NamedTuple):
    """sources: what checkpoints call the network's parameters; every linear module that they name
    may be adapted. roots: what training may have left out at the beginning of the names.
    """

    net: nn.Module
    sources: Sources
    roots: Sequence[str]


class AdaptingModel(TalkerModel):
    """A subclass has `prepare` ask for `row_of`, its stream write that as ADAPTER into its slot and
    its prompts' inputs, and its steps compute within `rows`.
    """

    _bank: AdapterBank | None = None

    @abstractmethod
    def adapted_parts(self) -> AdaptedParts:
        """What may be adapted."""

    def adapt(self, slots: int, most_rank: int) -> None:
        net, sources, roots = self.adapted_parts()
        device = self.device
        self.adapters = self._bank = AdapterBank(
            *(net, sources, slots, most_rank),
            roots=roots,
            fixed=device is not None,
            beside=nullcontext if device is None else device.aside,
        )
        spec, own = self.spec, {ADAPTER: NUMBER}
        self.spec = replace(
            spec,
            accepts=spec.accepts | {ADAPTER},
            state={**spec.state, **own},
            inputs={**spec.inputs, **own},
        )

    def row_of(self, request: SpeechRequest) -> int | None:
        """The id of the request's rows, 0 without an adapter; None where none are served.

        Raises UnknownAdapter for one that is not held.
        """
        if self._bank is None:
            return None
        return 0 if request.adapter is None else self._bank.row_id(request.adapter.digest)

    def rows(self, ids: Callable[[], Tensor]) -> AbstractContextManager[None]:
        """What is computed inside is of rows with these ids; see AdapterBank.rows."""
        return nullcontext() if self._bank is None else self._bank.rows(ids())


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


class SegmentModel(TalkerModel):
    """A model of segments; see segments.SegmentStream.

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
