"""The two kinds of a launch on a device, decode steps and prompts, over the shapes of a lattice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from torch import Tensor

from talker.family.blocks import BLOCK_POSITIONS
from talker.family.runner import Row
from talker.kernels.attention import TILE_QUERIES, prompt_tiles
from talker.runners.computation import Attend, Computation, Out, Prompts, Rows
from talker.runners.device_cache import DeviceCache
from talker.runners.resident import ResidentState
from ttscommon.engine.device.buckets import BatchSizes
from ttscommon.engine.device.device import Device
from ttscommon.engine.device.launches import Computed, InputShapes, Launches, ShapedWork
from ttscommon.engine.device.transfer import Buffers, Fetch
from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Array, Arrays, concatenate

# The field of a slot's state that holds its blocks.
TABLE: Final = "blocks of the cache"
# Streams up to here are attended by fewer programs; the host knows a bound of their length.
_SHORT: Final = 512
_LEAST_TOKENS: Final = 32
# Of recorded prompts: a row that is padding costs little, another recording costs start-up time.
_PROMPT_ROWS: Final = 16
_RECORDED_TOKENS: Final = 64, 1024


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


class KindOfLaunch(ABC):
    """Launches of one kind, of any shape; those of its lattice can be recorded."""

    def __init__(self, place: LaunchContext) -> None:
        self._place = place
        self._buckets = BatchSizes.doubling(place.most_rows)
        most = place.most_positions
        self._reaches = BatchSizes([min(_SHORT, most), most])
        job = Computed(self._told, self._nothing, self.compute)
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
        for shape in self._lattice(min(streams, self._place.most_rows), positions):
            self._launches.recorded(shape)

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
    def _told(self, shape: Shape) -> InputShapes: ...

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

    def _reach(self, rows: Sequence[Row]) -> int:
        reach = self._reaches.fit(max(row.plan.end for row in rows))
        assert reach is not None, "the engine keeps sequences within the cache"
        return reach

    def _slots(self, rows: Sequence[Row], size: int) -> Array:
        return np.array([*(row.slot for row in rows), *[self.padding] * (size - len(rows))])

    def _tables(self, slots: Tensor) -> Tensor:
        return self._place.state.tensors[TABLE].index_select(0, slots)


class Decodes(KindOfLaunch):
    """A token a row: a graph for each batch bucket and reach."""

    def _lattice(self, streams: int, positions: int) -> Sequence[Shape]:
        del positions
        sizes = [size for size in self._buckets.sizes if size <= (self._buckets.fit(streams) or 0)]
        return [Shape(n, n, reach) for n in reversed(sizes) for reach in self._reaches.sizes]

    def _shape(self, rows: Sequence[Row]) -> Shape:
        size = self._rows(rows)
        return Shape(size, size, self._reach(rows))

    def _arrays(self, rows: Sequence[Row], shape: Shape) -> Arrays:
        positions = np.array([row.plan.start for row in rows])
        return {"slots": self._slots(rows, shape.rows), "positions": positions}

    def _told(self, shape: Shape) -> InputShapes:
        return dict.fromkeys(("slots", "positions"), ((shape.rows,), "i8"))

    def _nothing(self, shape: Shape) -> Arrays:
        return self._arrays([], shape)

    def compute(self, told: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
        slots, positions = told["slots"], told["positions"]
        place, attend = self._place, dict[str, Attend]()
        if place.caches:
            tables = self._tables(slots)
            attend = {
                name: cache.decode(tables, positions, shape.reach)
                for name, cache in place.caches.items()
            }
        rows = Rows(slots, positions, shape.rows, window=place.model.spec.window)
        return self._computed(rows, attend)

    def _computed(self, rows: Rows, attend: Mapping[str, Attend]) -> dict[str, Tensor]:
        return tensors_of(self._place.model.decode(rows, self._place.state.tensors, attend))


class Promptings(KindOfLaunch):
    """Prompts of any length side by side, padded to buckets of rows and tokens.

    A few shapes are recorded where the family's `prefill` has fixed ones; others run as they come.
    """

    def __init__(self, place: LaunchContext) -> None:
        super().__init__(place)
        self._recorded: tuple[int, BatchSizes] | None = None

    def _lattice(self, streams: int, positions: int) -> Sequence[Shape]:
        if not self._place.model.fixed_prompts:
            return []
        least, most = _RECORDED_TOKENS
        rows = min(streams, max(_PROMPT_ROWS, positions // _LEAST_TOKENS))
        tokens = BatchSizes.doubling(max(least, min(most, _power(positions))), least)
        self._recorded = rows, tokens
        reaches = self._reaches.sizes
        return [Shape(rows, size, reach) for size in reversed(tokens.sizes) for reach in reaches]

    def _shape(self, rows: Sequence[Row]) -> Shape:
        tokens, reach = sum(row.plan.count for row in rows), self._reach(rows)
        if self._recorded is not None:
            most, sizes = self._recorded
            if len(rows) <= most and (size := sizes.fit(tokens)) is not None:
                return Shape(most, size, reach)
        return Shape(self._rows(rows), _power(max(_LEAST_TOKENS, tokens)), reach)

    def _arrays(self, rows: Sequence[Row], shape: Shape) -> Arrays:
        plans = [row.plan for row in rows]
        counts = [plan.count for plan in plans]
        tiles = prompt_tiles([plan.start for plan in plans], counts)
        return {
            **concatenate([row.stream.inputs(row.plan) for row in rows]),
            "slots": self._slots(rows, shape.rows),
            "positions": np.concatenate([np.arange(plan.start, plan.end) for plan in plans]),
            "places": self._places(rows, shape.tokens),
            "last": np.cumsum(counts) - 1,
            "samples": np.array([not plan.partial for plan in plans]),
            "tiles": np.array(tiles).reshape(-1, 4),
        }

    def _places(self, rows: Sequence[Row], tokens: int) -> Array:
        """Where in the cache each token goes; padding goes to the reserved block."""
        found = []
        for row in rows:
            if row.blocks:
                at = np.arange(row.plan.start, row.plan.end)
                blocks = np.asarray(row.blocks)[at // BLOCK_POSITIONS]
                found.append(blocks * BLOCK_POSITIONS + at % BLOCK_POSITIONS)
        known = np.concatenate(found) if found else np.zeros(0, np.int64)
        return np.append(known, np.full(tokens - len(known), self.reserved_row))

    @property
    def reserved_row(self) -> int:
        """A row of the caches that only padding writes."""
        reserved = [cache.reserved * BLOCK_POSITIONS for cache in self._place.caches.values()]
        return max(reserved, default=0)

    def _nothing(self, shape: Shape) -> Arrays:
        fields = {name: np.zeros((0, *size[1:])) for name, (size, _) in self._told(shape).items()}
        padding = {"slots": self._slots([], shape.rows), "places": self._places([], shape.tokens)}
        return {**fields, **padding}

    def _told(self, shape: Shape) -> InputShapes:
        rows, tokens = shape.rows, shape.tokens
        fields = self._place.model.spec.inputs
        return {
            **{name: ((tokens, *field.shape), field.dtype) for name, field in fields.items()},
            "slots": ((rows,), "i8"),
            "positions": ((tokens,), "i8"),
            "places": ((tokens,), "i8"),
            "last": ((rows,), "i8"),
            "samples": ((rows,), "?"),
            "tiles": ((tokens // TILE_QUERIES + rows, 4), "i4"),
        }

    def compute(self, told: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
        place, attend = self._place, dict[str, Attend]()
        if place.caches:
            tables = self._tables(told["slots"])
            attend = {
                name: cache.prompts(tables, told["tiles"], told["places"], shape.reach)
                for name, cache in place.caches.items()
            }
        inputs = {name: told[name] for name in place.model.spec.inputs}
        rows = Prompts(
            *(told["slots"], told["positions"], shape.rows),
            *(inputs, told["last"], told["samples"]),
        )
        return self._computed(rows, attend)

    def _computed(self, rows: Prompts, attend: Mapping[str, Attend]) -> dict[str, Tensor]:
        return tensors_of(self._place.model.prefill(rows, self._place.state.tensors, attend))


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length()


def tensors_of(out: Out) -> dict[str, Tensor]:
    """What comes back of a launch, by name."""
    told = {"gained": out.gained, "ended": out.ended, "bad": out.bad}
    if out.kept is not None:
        told["kept"] = out.kept
    return {**out.frames, **told}
