"""Launches on a device over the shapes of a lattice, and one of the two kinds: decode steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.engine.device.launches import Computed, InputShapes, Launches, ShapedWork
from ttscommon.engine.device.transfer import Buffers, Fetch
from ttscommon.engine.inflight import BatchSizes, LaunchPath
from ttscommon.wire.fields import Array, Arrays
from ttsfamilies.base.runners.computation import (
    Attend,
    BranchInputs,
    Computation,
    Out,
    Rows,
    TwoPartComputation,
)
from ttsfamilies.base.runners.resident import DeviceCache, ResidentState
from ttsfamilies.base.talker.streams import Row

# The field of a slot's state that holds its blocks.
TABLE: Final = "blocks of the cache"
# The past is cut into parts for attention by what the host knows of its length.
_SHORT: Final = 512
_REACHES: Final = (512, 1024, 2048, 4096)
# Beyond so many rows there are programs enough without a cut.
_CUT_ROWS: Final = 64
# Between powers of two, where a row of padding costs more than another recording.
_BETWEEN: Final = (96, 160, 192)


class Shape(NamedTuple):
    """What a launch is padded to: rows, tokens, and positions that attention reaches."""

    rows: int
    tokens: int
    reach: int


@dataclass(frozen=True)
class LaunchContext:
    """What launches of both kinds share: the model, its state and caches, and the device."""

    model: Computation
    state: ResidentState
    caches: Mapping[str, DeviceCache]
    device: Device
    buffers: Buffers
    most_rows: int
    most_positions: int


@dataclass(slots=True)
class Part:
    """Rows of a launch that were computed together; `indices`: where they stand in it.

    paths: see Runner.
    """

    indices: Sequence[int]
    counts: list[int]
    fetch: Fetch
    paths: Sequence[LaunchPath] = ()

    def wait(self) -> dict[str, Array]:
        """Raw frames, `gained`, `ended`, `bad` and `kept` by name. Raises DeviceError."""
        arrays = self.fetch.wait()
        arrays.setdefault("kept", np.array(self.counts))
        return arrays


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


class KindOfLaunch(ABC):
    """Launches of one kind, of any shape; those of its lattice can be recorded."""

    def __init__(self, place: LaunchContext, between: Between | None = None) -> None:
        """between: of launches that compute a part of what they would, see Mixed."""
        self._place, self._between = place, between
        self._buckets = self._row_sizes(place.most_rows)
        most = place.most_positions
        self._reaches = BatchSizes([min(_SHORT, most), most])
        self._most_branches = place.model.spec.branches
        self._branches = BranchInputs(self._most_branches, self.padding)
        job = Computed(self._input_shapes, self._nothing, self.compute)
        self._launches = Launches(place.device, place.buffers, job)

    def launch(self, indices: list[int], rows: Sequence[Row]) -> Part:
        """Submit these rows of a launch; raises before any state has changed, or DeviceError."""
        shape = self._shape(rows)
        fetch, path = self._launches.launch(shape, self._arrays(rows, shape), len(rows))
        return Part(indices, [row.plan.count for row in rows], fetch, [path])

    def run(self, rows: Sequence[Row]) -> tuple[Tensor, LaunchPath]:
        """See Launches.run; raises likewise."""
        shape = self._shape(rows)
        return self._launches.run(shape, self._arrays(rows, shape))

    def record(self, streams: int, positions: int) -> None:
        """Record all that launches within these limits are padded to, as far as it is worth it.

        The largest first, whose memory the others then share.
        """
        most = self._place.most_rows
        streams = min(streams, most)
        self._buckets = BatchSizes([*self._row_sizes(streams).sizes, most])
        for shape in self._lattice(streams, positions):
            self._launches.recorded(shape)

    def _row_sizes(self, most: int) -> BatchSizes:
        """Numbers of rows that launches of up to `most` are padded to: of parts every other size,
        as turns with prompts are few, and padding costs them little.
        """
        doubled = BatchSizes.doubling(most).sizes
        if self._between is not None:
            return BatchSizes(doubled[::-1][::2])
        return BatchSizes([*doubled, *(size for size in _BETWEEN if size < most)])

    @property
    def padding(self) -> int:
        return self._place.state.padding

    def prepared(self, shape: Shape) -> ShapedWork:
        """Work of this shape, recorded if it is not yet."""
        return self._launches.recorded(shape)

    @abstractmethod
    def _lattice(self, streams: int, positions: int) -> Sequence[Shape]:
        """Shapes that are recorded, the largest first."""

    @abstractmethod
    def _shape(self, rows: Sequence[Row]) -> Shape: ...

    @abstractmethod
    def _arrays(self, rows: Sequence[Row], shape: Shape) -> Arrays: ...

    @abstractmethod
    def _input_shapes(self, shape: Shape) -> InputShapes: ...

    @abstractmethod
    def _nothing(self, shape: Shape) -> Arrays:
        """Padding alone, for a recording."""

    @abstractmethod
    def compute(self, told: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
        """Frames, `gained`, `ended`, `bad` and maybe `kept` by name; what a graph captures."""

    def _rows(self, rows: Sequence[Row]) -> int:
        size = self._buckets.fit(len(rows))
        assert size is not None, "no more rows than slots"
        return size

    def _reach(self, rows: Sequence[Row], reaches: BatchSizes) -> int:
        reach = reaches.fit(max(row.plan.end for row in rows))
        assert reach is not None, "the engine keeps sequences within the cache"
        return reach

    def _slots(self, rows: Sequence[Row], size: int) -> Array:
        return np.array([*(row.slot for row in rows), *[self.padding] * (size - len(rows))])

    def _tables(self, told: Mapping[str, Tensor]) -> Tensor:
        return self._branches.tables(told, self._place.state.tensors[TABLE])


class Decodes(KindOfLaunch):
    """A token a row and branch: a graph for each bucket and reach, with few or many branches."""

    def _lattice(self, streams: int, positions: int) -> Sequence[Shape]:
        sizes = [size for size in self._buckets.sizes if size <= streams]
        return [
            Shape(size, tokens, reach)
            for size in reversed(sizes)
            for tokens in reversed(self._tokens(size).sizes)
            for reach in self._reaches_of(size).sizes
        ]

    def _reaches_of(self, rows: int) -> BatchSizes:
        if rows > _CUT_ROWS or self._between is not None:
            return self._reaches
        most = self._place.most_positions
        return BatchSizes([*(reach for reach in _REACHES if reach < most), most])

    def _tokens(self, rows: int) -> BatchSizes:
        """Numbers of tokens of so many rows: without a second branch, and with some or all."""
        sizes = {of * size for size in self._buckets.sizes for of in (1, self._most_branches)}
        return BatchSizes([size for size in sizes if rows <= size <= self._most_branches * rows])

    def _shape(self, rows: Sequence[Row]) -> Shape:
        size = self._rows(rows)
        tokens = self._tokens(size).fit(sum(row.stream.branches for row in rows))
        assert tokens is not None, "no stream has more branches than its model"
        return Shape(size, tokens, self._reach(rows, self._reaches_of(size)))

    def _arrays(self, rows: Sequence[Row], shape: Shape) -> Arrays:
        each = self._branches.each(rows)
        return {
            "slots": self._slots(rows, shape.rows),
            "positions": np.array([row.plan.start for row in each]),
            **self._branches.arrays(rows, each, shape.tokens, shape.tokens),
        }

    def _input_shapes(self, shape: Shape) -> InputShapes:
        return {
            "slots": ((shape.rows,), "i8"),
            "positions": ((shape.tokens,), "i8"),
            **self._branches.input_shapes(shape.rows, shape.tokens, shape.tokens),
        }

    def _nothing(self, shape: Shape) -> Arrays:
        return self._arrays([], shape)

    def compute(self, told: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
        slots, positions = told["slots"], told["positions"]
        place, attend = self._place, dict[str, Attend]()
        if place.caches:
            tables = self._tables(told)
            attend = {
                name: cache.decode(tables, positions, shape.reach)
                for name, cache in place.caches.items()
            }
        window, branches = place.model.spec.window, self._branches.of(told)
        rows = Rows(slots, positions, shape.rows, window=window, branches=branches)
        state, between = place.state.tensors, self._between
        if between is not None:
            return between.keep(rows, between.model.step_hidden(rows, state, attend))
        return tensors_of(place.model.decode(rows, state, attend))


def tensors_of(out: Out) -> dict[str, Tensor]:
    """What comes back of a launch, by name."""
    told = {"gained": out.gained, "ended": out.ended, "bad": out.bad}
    if out.kept is not None:
        told["kept"] = out.kept
    return {**out.frames, **told}
