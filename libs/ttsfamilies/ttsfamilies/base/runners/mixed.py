"""Prompts and steps in one turn: each through its own backbone, all frames made together.

Making a frame takes a device as long for one row as for many, so it is done once a turn. What a
backbone leaves of a row waits in the row's slot of `Between`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from torch import Tensor

from ttscommon.engine.device.launches import InputShapes
from ttscommon.engine.inflight import BatchSizes, LaunchPath
from ttscommon.wire.fields import Array, Arrays, concatenate
from ttsfamilies.base.kernels.attention import TILE_QUERIES, prompt_tiles
from ttsfamilies.base.runners.computation import Attend, Prompts
from ttsfamilies.base.runners.launches import (
    Between,
    Decodes,
    KindOfLaunch,
    LaunchContext,
    Part,
    Shape,
    tensors_of,
)
from ttsfamilies.base.talker.blocks import BLOCK_POSITIONS
from ttsfamilies.base.talker.streams import Row

_LEAST_TOKENS: Final = 32
# Of recorded prompts: a row that is padding costs little, another recording costs start-up time.
_PROMPT_ROWS: Final = 16
_RECORDED_TOKENS: Final = 64, 1024


class Promptings(KindOfLaunch):
    """Prompts of any length side by side, padded to buckets of rows and tokens.

    A few shapes are recorded where the family's `prefill` has fixed ones; others run as they come.
    """

    def __init__(self, place: LaunchContext, between: Between | None = None) -> None:
        super().__init__(place, between)
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
        tokens = sum(row.plan.count * row.stream.branches for row in rows)
        reach = self._reach(rows, self._reaches)
        if self._recorded is not None:
            most, sizes = self._recorded
            if len(rows) <= most and (size := sizes.fit(tokens)) is not None:
                return Shape(most, size, reach)
        return Shape(self._rows(rows), _power(max(_LEAST_TOKENS, tokens)), reach)

    def _arrays(self, rows: Sequence[Row], shape: Shape) -> Arrays:
        each = self._branches.each(rows)
        plans = [row.plan for row in each]
        counts = [plan.count for plan in plans]
        tiles = prompt_tiles([plan.start for plan in plans], counts)
        return {
            **concatenate([row.stream.inputs(row.plan, row.branch) for row in each]),
            "slots": self._slots(rows, shape.rows),
            "positions": np.concatenate([np.arange(plan.start, plan.end) for plan in plans]),
            "places": self._places(each, shape.tokens),
            "last": np.cumsum(counts[: len(rows)]) - 1,
            "samples": np.array([not row.plan.partial for row in rows]),
            "tiles": np.array(tiles).reshape(-1, 4),
            **self._branches.arrays(rows, each, shape.tokens, self._most_branches * shape.rows),
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
        fields = {
            name: np.zeros((0, *size[1:])) for name, (size, _) in self._input_shapes(shape).items()
        }
        padding = {"slots": self._slots([], shape.rows), "places": self._places([], shape.tokens)}
        return {**fields, **padding}

    def _input_shapes(self, shape: Shape) -> InputShapes:
        rows, tokens = shape.rows, shape.tokens
        fields = self._place.model.spec.inputs
        return {
            **{name: ((tokens, *field.shape), field.dtype) for name, field in fields.items()},
            "slots": ((rows,), "i8"),
            "positions": ((tokens,), "i8"),
            "places": ((tokens,), "i8"),
            "last": ((rows,), "i8"),
            "samples": ((rows,), "?"),
            "tiles": ((tokens // TILE_QUERIES + self._most_branches * rows, 4), "i4"),
            **self._branches.input_shapes(rows, tokens, self._most_branches * rows),
        }

    def compute(self, told: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
        place, attend = self._place, dict[str, Attend]()
        if place.caches:
            tables = self._tables(told)
            attend = {
                name: cache.prompts(tables, told["tiles"], told["places"], shape.reach)
                for name, cache in place.caches.items()
            }
        inputs = {name: told[name] for name in place.model.spec.inputs}
        rows = Prompts(
            *(told["slots"], told["positions"], shape.rows),
            *(inputs, told["last"], told["samples"]),
            branches=self._branches.of(told),
        )
        state, between = place.state.tensors, self._between
        if between is not None:
            return between.keep(rows, between.model.prompt_hidden(rows, state, attend))
        return tensors_of(place.model.prefill(rows, state, attend))


def _power(size: int) -> int:
    return 1 << (size - 1).bit_length()


class Mixed:
    """Launches turns that have a prompt in them, of a family that computes in two parts."""

    def __init__(self, place: LaunchContext, between: Between) -> None:
        self.prompts, self.steps = Promptings(place, between), Decodes(place, between)
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


class Frames(KindOfLaunch):
    """The second part of rows of both kinds."""

    def finish(self, rows: Sequence[Row], held: Sequence[Tensor], paths: list[LaunchPath]) -> Part:
        """Submit what makes the rows' frames; held, paths: of the parts before it."""
        shape = self._shape(rows)
        arrays = self._arrays(rows, shape)
        fetch, path = self._launches.launch(shape, arrays, len(rows), held)
        counts = [row.plan.count for row in rows]
        return Part(range(len(rows)), counts, fetch, [*paths, path])

    def _lattice(self, streams: int, positions: int) -> Sequence[Shape]:
        sizes = [size for size in self._buckets.sizes if size <= streams]
        return [Shape(size, 0, 0) for size in reversed(sizes)]

    def _shape(self, rows: Sequence[Row]) -> Shape:
        return Shape(self._rows(rows), 0, 0)

    def _arrays(self, rows: Sequence[Row], shape: Shape) -> Arrays:
        return {"slots": self._slots(rows, shape.rows)}

    def _input_shapes(self, shape: Shape) -> InputShapes:
        return {"slots": ((shape.rows,), "i8")}

    def _nothing(self, shape: Shape) -> Arrays:
        return {"slots": np.full(shape.rows, self.padding)}

    def compute(self, told: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
        between, slots = self._between, told["slots"]
        assert between is not None
        hidden = {name: tensor.index_select(0, slots) for name, tensor in between.hidden.items()}
        out = between.model.make_frames(slots, shape.rows, self._place.state.tensors, hidden)
        return tensors_of(out)
