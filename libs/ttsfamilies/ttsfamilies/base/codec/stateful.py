"""Codecs whose streams have a state that each step moves on, on the CPU and on a device."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Array, Arrays, rows
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, CodecState, Decoded, Work
from ttsfamilies.base.codec.causal import CausalState
from ttsfamilies.base.codec.executor import (
    DeviceExecutor,
    Executor,
    HostExecutor,
    Slice,
    SliceBatch,
)
from ttsfamilies.base.codec.kernels.rows import StateRows
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions


@dataclass(frozen=True, slots=True)
class CodecTicket:
    """A launch: its parts, those of one work behind each other, and samples of silence that end
    each of its works.
    """

    parts: Sequence[SliceBatch]
    silences: Sequence[int]


class StatefulCodec(Codec):
    """What such families share.

    A stream has the `row` of its state, see Executor. conditioning: numpy dtypes of what a step is
    given of each row.
    """

    conditioning: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self, spec: CodecSpec, how: CodecOptions, blank: Mapping[str, Tensor], extra: int = 0
    ) -> None:
        """blank: the state of a stream of which nothing was decoded. extra: see Shapes."""
        self.spec, self.executor = spec, self._executor(how, blank, extra)
        self.depth = int(how.device is not None)

    def _executor(self, how: CodecOptions, blank: Mapping[str, Tensor], extra: int) -> Executor:
        if how.device is None:
            return HostExecutor(self, blank)
        return DeviceExecutor(self, blank, how.device, how.limits, extra)

    @property
    def on_device(self) -> DeviceExecutor:
        """Its executor, where it computes on a device."""
        assert isinstance(self.executor, DeviceExecutor)
        return self.executor

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
        return None

    @abstractmethod
    def slices(self, work: Work) -> Sequence[Slice]:
        """What is to be decoded for a work, one after the other. Changes nothing."""

    @abstractmethod
    def launched(self, work: Work) -> None:
        """The work's slices were launched."""

    def silence_behind(self, work: Work) -> int:
        """Samples of silence that end a work; asked before it is launched."""
        return 0

    def mark(self, results: Arrays, row: int) -> bytes:
        """See Decoded."""
        return b""

    # a launch

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> CodecTicket:
        cut = [self.slices(work) for work in batch]
        silences = [self.silence_behind(work) for work in batch]
        rounds = [
            [(index, parts[at]) for index, parts in enumerate(cut) if at < len(parts)]
            for at in range(max(map(len, cut), default=0))
        ]
        parts = self.executor.launch(rounds)
        for work in batch:
            self.launched(work)
        return CodecTicket(parts, silences)

    def collect(self, ticket: CodecTicket) -> list[Decoded]:
        sound: list[list[Array]] = [[] for _ in ticket.silences]
        marks = [b""] * len(sound)
        for part in ticket.parts:
            results = part.fetch.wait()
            for row, (index, one) in enumerate(part.slices):
                count = rows(one.frames) * self.spec.samples_per_frame
                sound[index].append(results["samples"][row, one.skip : count])
                marks[index] = self.mark(results, row)
        for parts, silence in zip(sound, ticket.silences, strict=True):
            if silence or not parts:
                parts.append(np.zeros(silence, np.float32))
        return [
            Decoded(np.concatenate(parts), mark) for parts, mark in zip(sound, marks, strict=True)
        ]

    def close(self, state: Any) -> None:
        self.executor.give_back(state.row)

    def paths(self, ticket: CodecTicket) -> Sequence[LaunchPath]:
        return [part.path for part in ticket.parts]

    def warm_up(self, shapes: Sequence[tuple[int, int]]) -> None:
        self.executor.record(1 + self.depth)
        super().warm_up(shapes)


# Codecs of causal networks, Mimi and its like: a stream carries exact state from the frame that it
# was opened at to its last. `causal` says what that is.


# Convolutions over pieces of other lengths sum in another order. The differences are far smaller
# than a step, but each rounding may go the other way, and pieces follow the listener's slack.
TOLERANCE: Final = 2
# What a step is told of a stream: the frame that its state was opened at.
_BEGIN: Final = "begin"


class CausalNet(Protocol):
    """A network that decodes step by step."""

    def new_state(self, batch: int = 1) -> CausalState:
        """Streams of which nothing was decoded yet."""

    def step(
        self, frames: Tensor, lengths: Tensor, state: CausalState, begin: Tensor | None = None
    ) -> tuple[Tensor, CausalState]:
        """Decode the next frames of a batch of streams.

        frames: [batch, frames, ...], codes int64 or floats, right padded; lengths: [batch] int64,
        real frames. begin: [batch] int64, the frames that states were opened at, 0 without; of no
        meaning where only distances matter.
        Returns samples [batch, frames * samples of a frame] in -1..1, valid up to the real frames,
        and the state behind them.
        """


@dataclass(eq=False)
class CausalStream:
    """row: of the state. begin: the frame that it was opened at. fresh: nothing was decoded."""

    row: Any
    begin: int
    fresh: bool = True


class CausalCodec(StatefulCodec):
    """A loaded decoder, whose weights are where it computes. Frames say who speaks; the voice is
    not looked at.
    """

    conditioning: ClassVar[Mapping[str, str]] = {_BEGIN: "i8"}

    def __init__(
        self, net: CausalNet, spec: CodecSpec, how: CodecOptions = ON_CPU, extra: int = 0
    ) -> None:
        """extra: see Shapes."""
        self._net = net
        blank = {name: tensor[0] for name, tensor in net.new_state().named().items()}
        super().__init__(spec, how, blank, extra)

    def open(self, request: SpeechRequest, frame: int = 0) -> CodecState:
        return CausalStream(self.executor.take(), frame)

    def slices(self, work: Work) -> Sequence[Slice]:
        stream: CausalStream = work.state
        told = {_BEGIN: stream.begin}
        return [Slice(stream.row, work.frames, stream.fresh, told)] if len(work) else []

    def launched(self, work: Work) -> None:
        work.state.fresh = work.state.fresh and not len(work)

    def step(
        self, inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        frames = inputs[next(iter(self.spec.frame))]
        frames = frames if frames.is_floating_point() else frames.long()
        told = inputs["lengths"], CausalState.of(state), inputs.get(_BEGIN)
        samples, after = self._net.step(frames, *told)
        return {"samples": samples}, after.named()
