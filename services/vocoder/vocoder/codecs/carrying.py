"""Codecs whose streams carry a `CarriedState` for ever, on the CPU and on a device.

A frame has one field. Where a voice goes on from a recording, the recording's last frames are
decoded first, unheard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.wire.fields import Array
from ttscommon.wire.messages import SpeechRequest
from vocoder.codecs.base import Codec, CodecSpec, Decoded, Work
from vocoder.codecs.carried import CarriedState, Steps, decode_together
from vocoder.codecs.device_codec import DeviceCodec, Slice
from vocoder.codecs.room import DeviceLimits


class Carrying(Steps, Protocol):
    """A network whose streams begin blank."""

    def new_state(self, batch: int = 1) -> CarriedState: ...


@dataclass
class CarriedStream:
    """What was decoded so far, of one stream."""

    state: CarriedState


class CarriedCodec(Codec):
    """A loaded decoder. The frames say who speaks; the voice is not looked at."""

    def __init__(self, spec: CodecSpec, net: Carrying) -> None:
        self.spec, self._net = spec, net
        (self._field,) = spec.frame

    def open(self, request: SpeechRequest, frame: int = 0) -> CarriedStream:
        del request, frame  # only distances matter
        return CarriedStream(self._net.new_state())

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        found = {id(work): torch.zeros(0) for work in batch}
        works = [work for work in batch if len(work)]
        if works:
            frames = [_fed(work.frames[self._field]) for work in works]
            states = [work.state.state for work in works]
            sounds, after = decode_together(self._net, states, frames)
            for work, sound, state in zip(works, sounds, after, strict=True):
                work.state.state, found[id(work)] = state, sound
        return [Decoded(found[id(work)].float().numpy()) for work in batch]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket


@dataclass(eq=False)
class CarriedRow:
    """The host's part of a stream."""

    row: int
    fresh: bool = True


class CarriedOnDevice(DeviceCodec):
    """A loaded decoder, whose weights are on the device."""

    def __init__(self, spec: CodecSpec, net: Carrying, device: Device, room: DeviceLimits) -> None:
        self._net = net
        (self._field,) = spec.frame
        blank = {name: tensor[0] for name, tensor in net.new_state().named().items()}
        super().__init__(spec, device, room, blank)

    def open(self, request: SpeechRequest, frame: int = 0) -> CarriedRow:
        del request, frame
        return CarriedRow(self.resident.take())

    def pieces(self, work: Work) -> Sequence[Slice]:
        return [Slice(work.state.row, work.frames, work.state.fresh)] if len(work) else []

    def launched(self, work: Work) -> None:
        work.state.fresh = work.state.fresh and not len(work)

    def step(
        self, inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        frames = inputs[self._field]
        frames = frames if frames.is_floating_point() else frames.long()
        before = CarriedState.of(list(state.values()))
        samples, after = self._net.step(frames, inputs["lengths"], before)
        return {"samples": samples}, after.named()


def _fed(frames: Array) -> Tensor:
    """Codes as int64, and floats as they are."""
    codes = frames.dtype.kind in "iu"
    return torch.from_numpy(frames.astype("int64") if codes else frames.copy())
