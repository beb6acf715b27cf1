"""Executors: they hold streams' states, and compute steps at once on the CPU or on a device.

On a device the host is a step ahead. It sends frames and which rows they are for as one copy from
pinned memory; a step is one recorded graph and comes back as one copy. Nothing is read from the
device before `collect`. Shapes that were not recorded before the first request are computed
operation by operation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.engine.device.launches import Computed, InputShapes, Launches
from ttscommon.engine.device.transfer import Buffers
from ttscommon.engine.inflight import DeviceError, LaunchPath, reason
from ttscommon.engine.kernels.choice import use_triton
from ttscommon.engine.slots import NoSlot
from ttscommon.wire.fields import Array, Arrays, Field, rows
from ttsfamilies.base.codec.base import CodecSpec
from ttsfamilies.base.codec.kernels.rows import StateRows
from ttsfamilies.base.codec.options import BatchShape, DeviceLimits, Shapes

# Decoder states of many streams on a device, a row each.


class StateSlots:
    """`rows` rows of state, and one more that padding reads and writes.

    tensors: [rows + 1, *shape] by name; they stay where they are.
    """

    def __init__(self, blank: Mapping[str, Tensor], rows: int, where: torch.device) -> None:
        """blank: the state of a stream of which nothing was decoded, [*shape] by name."""
        self.padding = rows
        self._blank = {name: tensor.to(where) for name, tensor in blank.items()}
        self.tensors = {
            name: tensor.new_zeros(rows + 1, *tensor.shape) for name, tensor in self._blank.items()
        }
        self._free = list(range(rows - 1, -1, -1))

    def take(self) -> int:
        """A row of any content; raises NoSlot."""
        if not self._free:
            raise NoSlot("the codec holds as many streams as it has room for")
        return self._free.pop()

    def give_back(self, row: int) -> None:
        """No launch writes this row any more."""
        if row in self._free:
            raise AssertionError(f"row {row} was given back twice")
        self._free.append(row)

    def read(self, slots: Tensor, fresh: Tensor) -> dict[str, Tensor]:
        """States of these rows, [rows, *shape]; blank ones where `fresh` [rows] bool."""
        return {
            name: torch.where(_beside(fresh, tensor), self._blank[name], tensor[slots])
            for name, tensor in self.tensors.items()
        }

    def write(self, slots: Tensor, states: Mapping[str, Tensor]) -> None:
        """The inverse of `read`."""
        for name, tensor in self.tensors.items():
            tensor.index_copy_(0, slots, states[name])


def _beside(flags: Tensor, tensor: Tensor) -> Tensor:
    """[rows] -> [rows, 1, ...] with as many dimensions as `tensor`."""
    return flags.view(-1, *[1] * (tensor.dim() - 1))


class Slice(NamedTuple):
    """Frames of the stream with the state `row` that one step decodes.

    row: what `Executor.take` gave. fresh: from a blank state. conditioning: the stream's part of
    `StatefulCodec.conditioning`. skip: samples at its beginning that are not heard.
    """

    row: Any
    frames: Arrays
    fresh: bool
    conditioning: Mapping[str, float] = MappingProxyType({})
    skip: int = 0


class Fetched(Protocol):
    """Results of a step, by name."""

    def wait(self) -> Arrays: ...


@dataclass(frozen=True, slots=True)
class SliceBatch:
    """Slices that were decoded together, with the indices of their works in the batch."""

    slices: Sequence[tuple[int, Slice]]
    fetch: Fetched
    path: LaunchPath


class Steps(Protocol):
    """What executors ask of a codec; see StatefulCodec."""

    spec: CodecSpec

    @property
    def conditioning(self) -> Mapping[str, str]: ...

    def step(
        self, inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]: ...

    def step_in_place(
        self, inputs: Mapping[str, Tensor], rows: StateRows, state: Mapping[str, Tensor]
    ) -> dict[str, Tensor] | None: ...


class Executor(ABC):
    """Holds a codec's states, and computes its steps."""

    def __init__(self, codec: Steps) -> None:
        self._codec = codec

    @abstractmethod
    def take(self) -> Any:
        """The row of a new stream, of any content; raises NoSlot."""

    def give_back(self, row: Any) -> None:  # noqa: B027
        """No step writes this row any more."""

    @abstractmethod
    def launch(self, rounds: Sequence[Sequence[tuple[int, Slice]]]) -> list[SliceBatch]:
        """Submit a step for each round, one behind the other: all states advance or none does."""

    def record(self, flying: int) -> None:  # noqa: B027
        """Make launches ready of all that occurs, so many of which may be in flight."""

    def _inputs(self, slices: Sequence[Slice], frames: int) -> dict[str, Array]:
        """What a step is told beside states, with slices padded to so many frames."""
        told = self._codec.conditioning.items()
        return {
            "lengths": np.array([rows(one.frames) for one in slices], np.int64),
            **{n: np.array([one.conditioning[n] for one in slices], dtype) for n, dtype in told},
            **{n: _padded(n, f, slices, frames) for n, f in self._codec.spec.frame.items()},
        }


def _padded(name: str, field: Field, slices: Sequence[Slice], frames: int) -> Array:
    """One field of all slices, [slices, frames, ...]."""
    padded = np.zeros((len(slices), frames, *field.shape), field.dtype)
    for row, one in zip(padded, slices, strict=True):
        row[: rows(one.frames)] = one.frames[name]
    return padded


@dataclass(eq=False)
class _HostRow:
    """A stream's state, [1, *shape] by name."""

    state: Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class _Done:
    results: Arrays

    def wait(self) -> Arrays:
        return self.results


class HostExecutor(Executor):
    """Steps in the shapes that they come in."""

    def __init__(self, codec: Steps, blank: Mapping[str, Tensor]) -> None:
        super().__init__(codec)
        self._blank = {name: tensor[None] for name, tensor in blank.items()}

    def take(self) -> _HostRow:
        return _HostRow(self._blank)

    def launch(self, rounds: Sequence[Sequence[tuple[int, Slice]]]) -> list[SliceBatch]:
        states: dict[_HostRow, Mapping[str, Tensor]] = {}
        parts = []
        for numbered in rounds:
            slices = [one for _, one in numbered]
            before = [
                self._blank if one.fresh else states.get(one.row, one.row.state) for one in slices
            ]
            results, after = self._step(slices, before)
            states.update(zip((one.row for one in slices), after, strict=True))
            parts.append(SliceBatch(numbered, _Done(results), "eager"))
        for row, state in states.items():
            row.state = state
        return parts

    def _step(
        self, slices: Sequence[Slice], before: Sequence[Mapping[str, Tensor]]
    ) -> tuple[Arrays, list[dict[str, Tensor]]]:
        inputs = self._inputs(slices, max(rows(one.frames) for one in slices))
        state = {name: torch.cat([one[name] for one in before]) for name in self._blank}
        told = {name: torch.from_numpy(array) for name, array in inputs.items()}
        results, after = self._codec.step(told, state)
        apart = {name: tensor.split(1) for name, tensor in after.items()}
        each = [{name: parts[i] for name, parts in apart.items()} for i in range(len(slices))]
        return {name: tensor.numpy() for name, tensor in results.items()}, each


class DeviceExecutor(Executor):
    """States resident in slots, a graph for each (batch, frames) bucket."""

    def __init__(
        self,
        codec: Steps,
        blank: Mapping[str, Tensor],
        device: Device,
        limits: DeviceLimits,
        extra: int = 0,
    ) -> None:
        """blank: see StateSlots. extra: see Shapes."""
        super().__init__(codec)
        self.device, self.shapes = device, Shapes(limits, extra)
        with device.making():
            self.slots = StateSlots(blank, limits.states, device.where)
        self.launches = Launches(
            device, Buffers(device), Computed(self._input_shapes, self._nothing, self._run)
        )

    def take(self) -> int:
        return self.slots.take()

    def give_back(self, row: int) -> None:
        self.slots.give_back(row)

    def launch(self, rounds: Sequence[Sequence[tuple[int, Slice]]]) -> list[SliceBatch]:
        told = []
        for numbered in rounds:
            for part in self._parted(numbered):
                slices = [one for _, one in part]
                shape = self.shapes.fit(len(slices), max(rows(one.frames) for one in slices))
                told.append((part, shape, self._arrays(slices, shape)))
        try:
            return [SliceBatch(n, *self.launches.launch(s, a, len(n))) for n, s, a in told]
        except Exception as error:  # states may have changed: the launch cannot be tried again
            raise DeviceError(reason(error)) from error

    def _parted(self, numbered: Sequence[tuple[int, Slice]]) -> list[Sequence[tuple[int, Slice]]]:
        """Slices of about one length side by side, no more than a launch takes."""
        ordered = sorted(numbered, key=lambda one: -rows(one[1].frames))
        parts = list[Sequence[tuple[int, Slice]]]()
        while ordered:
            most = self.shapes.most_rows(rows(ordered[0][1].frames))
            parts.append(ordered[:most])
            ordered = ordered[most:]
        return parts

    def record(self, flying: int) -> None:
        """All that launches are padded to, the largest first.

        Each runs as often as launches may be in flight, so that buffers for all of them are there.
        """
        for shape in self.shapes.expected():
            self.launches.recorded(shape)
            nothing = self._nothing(shape)
            fetches = [self.launches.launch(shape, nothing, shape.rows)[0] for _ in range(flying)]
            for fetch in fetches:
                fetch.wait()

    def _arrays(self, slices: Sequence[Slice], shape: BatchShape) -> Arrays:
        missing = shape.rows - len(slices)
        return {
            "slots": np.array([*(one.row for one in slices), *[self.slots.padding] * missing]),
            "fresh": np.array([*(one.fresh for one in slices), *[True] * missing]),
            **self._inputs(slices, shape.frames),
        }

    def _input_shapes(self, shape: BatchShape) -> InputShapes:
        conditioning, frame = self._codec.conditioning.items(), self._codec.spec.frame.items()
        return {
            "slots": ((shape.rows,), "i8"),
            "fresh": ((shape.rows,), "?"),
            "lengths": ((shape.rows,), "i8"),
            **{name: ((shape.rows,), dtype) for name, dtype in conditioning},
            **{name: ((*shape, *f.shape), f.dtype) for name, f in frame},
        }

    def _nothing(self, shape: BatchShape) -> Arrays:
        return self._arrays([], shape)

    def _run(self, inputs: Mapping[str, Tensor], shape: BatchShape) -> Mapping[str, Tensor]:
        at = inputs["slots"]
        if use_triton(at):
            state_rows = StateRows(at, inputs["fresh"], inputs["lengths"])
            found = self._codec.step_in_place(inputs, state_rows, self.slots.tensors)
            if found is not None:
                return found
        results, after = self._codec.step(inputs, self.slots.read(at, inputs["fresh"]))
        self.slots.write(at, after)
        return results
