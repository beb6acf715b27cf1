"""Codecs that carry exact state for ever, on the CPU and on a device.

For Mimi and its like: see carried.py for what a stream carries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.wire.fields import Array
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Work
from ttsfamilies.base.codec.carried import CarriedState, Steps, decode_together
from ttsfamilies.base.codec.device_codec import DeviceCodec, Slice
from ttsfamilies.base.codec.room import DeviceLimits

# Convolutions over pieces of other lengths round otherwise.
TOLERANCE: Final = 2
# What a device is told of a stream: the frame that its state was opened at.
BEGIN: Final = "begin"


class Carrier(Protocol):
    """A network that decodes step by step, and where it begins."""

    def new_state(self, batch: int = 1) -> CarriedState:
        """Streams of which nothing was decoded yet."""

    def beginning(self, begin: Tensor) -> Steps:
        """The network for streams whose states were opened at frames `begin` [batch] int64; where
        only distances matter, the same for all.
        """


@dataclass(eq=False)
class CarriedStream:
    """What was decoded so far, of one stream. begin: the frame that it was opened at."""

    state: CarriedState
    begin: int


class CarryingCodec(Codec):
    """A loaded decoder of frames of one field. They say who speaks; the voice is not looked at."""

    def __init__(self, net: Carrier, spec: CodecSpec) -> None:
        self._net, self.spec = net, spec

    def open(self, request: SpeechRequest, frame: int = 0) -> CarriedStream:
        del request
        return CarriedStream(self._net.new_state(), frame)

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        found = {id(work): torch.zeros(0) for work in batch}
        works = [work for work in batch if len(work)]
        if works:
            (field,) = self.spec.frame
            codes = [_fed(work.frames[field]) for work in works]
            net = self._net.beginning(torch.tensor([work.state.begin for work in works]))
            sounds, after = decode_together(net, [w.state.state for w in works], codes)
            for work, sound, state in zip(works, sounds, after, strict=True):
                work.state.state, found[id(work)] = state, sound
        return [Decoded(found[id(work)].numpy()) for work in batch]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket


@dataclass(eq=False)
class DeviceCarried:
    """The host's part of a stream."""

    row: int
    begin: int
    fresh: bool = True


class CarryingOnDevice(DeviceCodec):
    """A loaded decoder, whose weights are on the device."""

    conditioning = {BEGIN: "i8"}  # noqa: RUF012 -- as its base declares

    def __init__(self, net: Carrier, spec: CodecSpec, device: Device, room: DeviceLimits) -> None:
        self._net = net
        blank = {name: tensor[0] for name, tensor in net.new_state().named().items()}
        super().__init__(spec, device, room, blank)

    def open(self, request: SpeechRequest, frame: int = 0) -> DeviceCarried:
        del request
        return DeviceCarried(self.resident.take(), frame)

    def pieces(self, work: Work) -> Sequence[Slice]:
        stream: DeviceCarried = work.state
        told = {BEGIN: stream.begin}
        return [Slice(stream.row, work.frames, stream.fresh, told)] if len(work) else []

    def launched(self, work: Work) -> None:
        work.state.fresh = work.state.fresh and not len(work)

    def step(
        self, inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        before = CarriedState.of(list(state.values()))
        net = self._net.beginning(inputs[BEGIN])
        (field,) = self.spec.frame
        frames = inputs[field]
        frames = frames if frames.is_floating_point() else frames.long()
        samples, after = net.step(frames, inputs["lengths"], before)
        return {"samples": samples}, after.named()


def _fed(frames: Array) -> Tensor:
    """Codes as int64, and floats as they are."""
    codes = frames.dtype.kind in "iu"
    return torch.from_numpy(frames.astype("int64") if codes else frames.copy())
