"""Decoding on a device, one step behind: states resident, a graph for each (batch, frames) bucket.

The host sends frames and which rows they are for as one copy from pinned memory; a step is one
recorded graph and comes back as one copy. Nothing is read from the device before `collect`. Shapes
that were not recorded before the first request are computed operation by operation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.engine.device.launches import Computed, InputShapes, Launches
from ttscommon.engine.device.transfer import Buffers, Fetch
from ttscommon.engine.inflight import DeviceError, LaunchPath, reason
from ttscommon.engine.kernels.choice import use_triton
from ttscommon.wire.fields import Array, Arrays, rows
from vocoder.codecs.base import Codec, CodecSpec, Decoded, Work
from vocoder.codecs.kernels.rows import StateRows
from vocoder.codecs.resident import Resident
from vocoder.codecs.room import DeviceLimits, Shape, Shapes


class Slice(NamedTuple):
    """Frames of the stream in row `row` that one launch decodes.

    fresh: from a blank state. conditioning: the row's part of `DeviceCodec.conditioning`. skip:
    samples at its beginning that are not heard.
    """

    row: int
    frames: Arrays
    fresh: bool
    conditioning: Mapping[str, float] = MappingProxyType({})
    skip: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """Pieces that were decoded together, with the indices of their works in the batch."""

    pieces: Sequence[tuple[int, Slice]]
    fetch: Fetch
    path: LaunchPath


@dataclass(frozen=True, slots=True)
class Ticket:
    """A launch of `count` works; parts of one work follow each other."""

    count: int
    parts: Sequence[Part]


class DeviceCodec(Codec):
    """What families share on a device.

    A stream's state on the host has the `row` of its state on the device. conditioning: numpy
    dtypes of what a step is given of each row.
    """

    depth = 1
    conditioning: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self,
        spec: CodecSpec,
        device: Device,
        room: DeviceLimits,
        blank: Mapping[str, Tensor],
        extra: int = 0,
    ) -> None:
        """blank: see Resident. extra: see Shapes."""
        self.spec = spec
        self._device = device
        self.shapes = Shapes(room, extra)
        with device.making():
            self.resident = Resident(blank, room.states, device.where)
        self.launches = Launches(
            device, Buffers(device), Computed(self._told, self._nothing, self._run)
        )

    # what a family says

    @abstractmethod
    def step(
        self, inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Decode in fixed shapes without reading anything back: what a graph captures.

        inputs: the frames' fields [rows, frames, ...], `lengths` [rows] int64 of the real ones, and
        what `conditioning` names [rows]. Returns `samples` [rows, frames * samples_per_frame] and
        whatever `mark` needs, [rows, ...] by name, and the states behind them.
        """

    def step_in_place(
        self, inputs: Mapping[str, Tensor], rows: StateRows, state: Mapping[str, Tensor]
    ) -> dict[str, Tensor] | None:
        """As `step`, by kernels that move the rows of all states [states + 1, ...] on in place.

        Returns the results, or None where a family has no such kernels.
        """
        del inputs, rows, state
        return None

    @abstractmethod
    def pieces(self, work: Work) -> Sequence[Slice]:
        """What is to be decoded for a work, one after the other. Changes nothing."""

    @abstractmethod
    def launched(self, work: Work) -> None:
        """The work's pieces were launched."""

    def mark(self, results: Arrays, row: int) -> bytes:
        """See Decoded."""
        del results, row
        return b""

    # a launch

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> Ticket:
        cut = [self.pieces(work) for work in batch]
        rounds = []
        for at in range(max(map(len, cut), default=0)):
            pieces = [(index, parts[at]) for index, parts in enumerate(cut) if at < len(parts)]
            shape = self._shape([piece for _, piece in pieces])
            rounds.append((pieces, shape, self._arrays([piece for _, piece in pieces], shape)))
        try:
            parts = [Part(p, *self.launches.launch(s, a, len(p))) for p, s, a in rounds]
        except Exception as error:  # states may have changed: the launch cannot be tried again
            raise DeviceError(reason(error)) from error
        for work in batch:
            self.launched(work)
        return Ticket(len(batch), parts)

    def collect(self, ticket: Ticket) -> list[Decoded]:
        sound: list[list[Array]] = [[] for _ in range(ticket.count)]
        marks = [b""] * ticket.count
        for part in ticket.parts:
            results = part.fetch.wait()
            for row, (index, piece) in enumerate(part.pieces):
                count = rows(piece.frames) * self.spec.samples_per_frame
                sound[index].append(results["samples"][row, piece.skip : count])
                marks[index] = self.mark(results, row)
        silence = np.zeros(0, np.float32)
        return [
            Decoded(np.concatenate(parts) if parts else silence, mark)
            for parts, mark in zip(sound, marks, strict=True)
        ]

    def close(self, state: Any) -> None:
        self.resident.give_back(state.row)

    def paths(self, ticket: Ticket) -> Sequence[LaunchPath]:
        return [part.path for part in ticket.parts]

    def warm_up(self, shapes: Sequence[tuple[int, int]]) -> None:
        """Record all that the scheduler's steps are padded to, the largest first.

        Each runs as often as launches may be in flight, so that buffers for all of them are there.
        """
        for shape in self.shapes.expected():
            self.launches.recorded(shape)
            flying = [
                self.launches.launch(shape, self._nothing(shape), shape.rows)[0]
                for _ in range(1 + self.depth)
            ]
            for fetch in flying:
                fetch.wait()
        super().warm_up(shapes)

    def _shape(self, pieces: Sequence[Slice]) -> Shape:
        return self.shapes.fit(len(pieces), max(rows(piece.frames) for piece in pieces))

    def _arrays(self, pieces: Sequence[Slice], shape: Shape) -> Arrays:
        missing = shape.rows - len(pieces)
        return {
            "slots": np.array([*(p.row for p in pieces), *[self.resident.padding] * missing]),
            "fresh": np.array([*(p.fresh for p in pieces), *[True] * missing]),
            "lengths": np.array([rows(p.frames) for p in pieces], np.int64),
            **{
                name: np.array([p.conditioning[name] for p in pieces]) for name in self.conditioning
            },
            **{name: self._padded(name, pieces, shape) for name in self.spec.frame},
        }

    def _padded(self, name: str, pieces: Sequence[Slice], shape: Shape) -> Array:
        """One field of all pieces, [pieces, frames, ...]."""
        field = self.spec.frame[name]
        padded = np.zeros((len(pieces), shape.frames, *field.shape), field.dtype)
        for row, piece in zip(padded, pieces, strict=True):
            row[: rows(piece.frames)] = piece.frames[name]
        return padded

    def _told(self, shape: Shape) -> InputShapes:
        return {
            "slots": ((shape.rows,), "i8"),
            "fresh": ((shape.rows,), "?"),
            "lengths": ((shape.rows,), "i8"),
            **{name: ((shape.rows,), dtype) for name, dtype in self.conditioning.items()},
            **{name: ((*shape, *f.shape), f.dtype) for name, f in self.spec.frame.items()},
        }

    def _nothing(self, shape: Shape) -> Arrays:
        return self._arrays([], shape)

    def _run(self, inputs: Mapping[str, Tensor], shape: Shape) -> Mapping[str, Tensor]:
        del shape
        slots = inputs["slots"]
        if use_triton(slots):
            rows = StateRows(slots, inputs["fresh"], inputs["lengths"])
            found = self.step_in_place(inputs, rows, self.resident.tensors)
            if found is not None:
                return found
        results, after = self.step(inputs, self.resident.read(slots, inputs["fresh"]))
        self.resident.write(slots, after)
        return results
