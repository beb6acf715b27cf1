"""Prompts and steps in one turn: each through its own backbone, all frames made together.

Making a frame takes a device as long for one row as for many, so it is done once a turn. What a
backbone leaves of a row waits in the row's slot of `Place.hidden`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from talker.family.runner import Row
from talker.runners.computation import Attend, Prompts, Rows
from talker.runners.launches import (
    Decodes,
    KindOfLaunch,
    Part,
    Place,
    Promptings,
    Shape,
    tensors_of,
)
from ttscommon.engine.device.buckets import Buckets
from ttscommon.engine.device.launches import Told
from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Arrays


class Mixed:
    """Launches turns that have a prompt in them, of a family that names its `hidden`."""

    def __init__(self, place: Place) -> None:
        self.prompts, self.steps = PromptBackbones(place), StepBackbones(place)
        self.frames = Frames(place)

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

    def _computed(self, rows: Prompts, attend: Mapping[str, Attend]) -> dict[str, Tensor]:
        place = self._place
        return _keep(place, rows, place.model.prompt_hidden(rows, place.state.tensors, attend))


class StepBackbones(Decodes):
    """The first part of steps beside prompts."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._buckets = _coarse(self._buckets)

    def _computed(self, rows: Rows, attend: Mapping[str, Attend]) -> dict[str, Tensor]:
        place = self._place
        return _keep(place, rows, place.model.step_hidden(rows, place.state.tensors, attend))


class Frames(KindOfLaunch):
    """The second part of rows of both kinds."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._buckets = _coarse(self._buckets)

    def finish(self, rows: Sequence[Row], held: Sequence[Tensor], paths: list[LaunchPath]) -> Part:
        """Submit what makes the rows' frames; held, paths: of the parts before it."""
        shape = self._shape(rows)
        arrays = self._arrays(rows, shape)
        fetch, path = self._launches.launch(shape, arrays, len(rows), held)
        counts = [row.plan.count for row in rows]
        return Part(range(len(rows)), counts, fetch, [*paths, path])

    def _lattice(self, streams: int, positions: int) -> Sequence[Shape]:
        del positions
        sizes = [size for size in self._buckets.sizes if size <= (self._buckets.fit(streams) or 0)]
        return [Shape(size, 0, 0) for size in reversed(sizes)]

    def _shape(self, rows: Sequence[Row]) -> Shape:
        return Shape(self._rows(rows), 0, 0)

    def _arrays(self, rows: Sequence[Row], shape: Shape) -> Arrays:
        return {"slots": self._slots(rows, shape.rows)}

    def _told(self, shape: Shape) -> Told:
        return {"slots": ((shape.rows,), "i8")}

    def _nothing(self, shape: Shape) -> Arrays:
        return {"slots": np.full(shape.rows, self.padding)}

    def compute(self, told: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
        place, slots = self._place, told["slots"]
        hidden = {name: tensor.index_select(0, slots) for name, tensor in place.hidden.items()}
        out = place.model.make_frames(slots, shape.rows, place.state.tensors, hidden)
        return tensors_of(out)


def _keep(place: Place, rows: Rows, hidden: Mapping[str, Tensor]) -> dict[str, Tensor]:
    for name, tensor in hidden.items():
        place.hidden[name].index_copy_(0, rows.slots, tensor)
    return {"slots": rows.slots}


def _coarse(buckets: Buckets) -> Buckets:
    """Every other size: turns with prompts are few, and padding costs them little."""
    return Buckets(buckets.sizes[::-1][::2])
