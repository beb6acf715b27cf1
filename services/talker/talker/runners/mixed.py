"""Prompts and steps in one turn: each through its own backbone, all frames made together.

Making a frame takes a device as long for one row as for many, so it is done once a turn. What a
backbone leaves of a row waits in the row's slot of `Between`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from talker.family.runner import Row
from talker.runners.computation import Attend, Prompts, Rows, TwoPartComputation
from talker.runners.launches import (
    Decodes,
    KindOfLaunch,
    LaunchContext,
    Part,
    Shape,
    tensors_of,
)
from talker.runners.promptings import Promptings
from ttscommon.engine.device.buckets import BatchSizes
from ttscommon.engine.device.device import Device
from ttscommon.engine.device.launches import InputShapes
from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Arrays


@dataclass(frozen=True)
class Between:
    """What is known of rows between the two parts of `model`: `hidden`, a row a slot."""

    model: TwoPartComputation
    hidden: Mapping[str, Tensor]

    @classmethod
    def of(cls, model: TwoPartComputation, rows: int, device: Device) -> Self:
        """Of nothing yet, for so many slots and the padding's."""
        with device.making():
            hidden = {
                name: torch.zeros(rows + 1, *shape, dtype=dtype, device=device.where)
                for name, (shape, dtype) in model.hidden.items()
            }
        return cls(model, hidden)

    def keep(self, rows: Rows, hidden: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Until frames are made of it."""
        for name, tensor in hidden.items():
            self.hidden[name].index_copy_(0, rows.slots, tensor)
        return {"slots": rows.slots}


class Mixed:
    """Launches turns that have a prompt in them, of a family that computes in two parts."""

    def __init__(self, place: LaunchContext, between: Between) -> None:
        self.prompts = PromptBackbones(place, between)
        self.steps = StepBackbones(place, between)
        self.frames = Frames(place, between)

    def record(self, streams: int, positions: int) -> None:
        """See KindOfLaunch."""
        for kind in (self.prompts, self.steps, self.frames):
            kind.record(streams, positions)

    def launch(self, rows: Sequence[Row]) -> Part:
        """Submit all rows of a launch; raises before any state has changed, or DeviceError."""
        held: list[Tensor] = []
        paths: list[LaunchPath] = []
        # Prompts first: they may raise, and the cache alone has changed by then.
        for backbone, decode in ((self.prompts, False), (self.steps, True)):
            if some := [row for row in rows if row.plan.decode is decode]:
                buffer, path = backbone.run(some)
                held.append(buffer)
                paths.append(path)
        return self.frames.finish(rows, held, paths)


class PromptBackbones(Promptings):
    """The first part of prompts."""

    def __init__(self, place: LaunchContext, between: Between) -> None:
        super().__init__(place)
        self._between = between

    def _computed(self, rows: Prompts, attend: Mapping[str, Attend]) -> dict[str, Tensor]:
        model, state = self._between.model, self._place.state.tensors
        return self._between.keep(rows, model.prompt_hidden(rows, state, attend))


class StepBackbones(Decodes):
    """The first part of steps beside prompts."""

    def __init__(self, place: LaunchContext, between: Between) -> None:
        super().__init__(place)
        self._between = between

    def _row_sizes(self, most: int) -> BatchSizes:
        return _coarse(most)

    def _reaches_of(self, rows: int) -> BatchSizes:
        del rows
        return self._reaches

    def _computed(self, rows: Rows, attend: Mapping[str, Attend]) -> dict[str, Tensor]:
        model, state = self._between.model, self._place.state.tensors
        return self._between.keep(rows, model.step_hidden(rows, state, attend))


class Frames(KindOfLaunch):
    """The second part of rows of both kinds."""

    def __init__(self, place: LaunchContext, between: Between) -> None:
        super().__init__(place)
        self._between = between

    def finish(self, rows: Sequence[Row], held: Sequence[Tensor], paths: list[LaunchPath]) -> Part:
        """Submit what makes the rows' frames; held, paths: of the parts before it."""
        shape = self._shape(rows)
        arrays = self._arrays(rows, shape)
        fetch, path = self._launches.launch(shape, arrays, len(rows), held)
        counts = [row.plan.count for row in rows]
        return Part(range(len(rows)), counts, fetch, [*paths, path])

    def _row_sizes(self, most: int) -> BatchSizes:
        return _coarse(most)

    def _lattice(self, streams: int, positions: int) -> Sequence[Shape]:
        del positions
        sizes = [size for size in self._buckets.sizes if size <= streams]
        return [Shape(size, 0, 0) for size in reversed(sizes)]

    def _shape(self, rows: Sequence[Row]) -> Shape:
        return Shape(self._rows(rows), 0, 0)

    def _arrays(self, rows: Sequence[Row], shape: Shape) -> Arrays:
        return {"slots": self._slots(rows, shape.rows)}

    def _told(self, shape: Shape) -> InputShapes:
        return {"slots": ((shape.rows,), "i8")}

    def _nothing(self, shape: Shape) -> Arrays:
        return {"slots": np.full(shape.rows, self.padding)}

    def compute(self, told: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
        between, slots = self._between, told["slots"]
        hidden = {name: tensor.index_select(0, slots) for name, tensor in between.hidden.items()}
        out = between.model.make_frames(slots, shape.rows, self._place.state.tensors, hidden)
        return tensors_of(out)


def _coarse(most: int) -> BatchSizes:
    """Every other size: turns with prompts are few, and padding costs them little."""
    return BatchSizes(BatchSizes.doubling(most).sizes[::-1][::2])
