"""Codecs of causal networks: each stream carries exact state for ever.

For Mimi and its like: see `causal` for what a stream carries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from torch import Tensor

from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import CodecSpec, CodecState, Work
from ttsfamilies.base.codec.causal import CausalState
from ttsfamilies.base.codec.executor import Slice
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.stateful import StatefulCodec

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
        del request
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
