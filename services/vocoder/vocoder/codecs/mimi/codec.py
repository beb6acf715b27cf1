"""Mimi in the engine, on the CPU and on a device: exact state is carried for ever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import torch
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from vocoder.codecs.base import Codec, CodecSpec, Decoded, Work
from vocoder.codecs.carried import CarriedState, decode_together
from vocoder.codecs.device_codec import DeviceCodec, Slice
from vocoder.codecs.mimi import kyutai
from vocoder.codecs.mimi.config import context_frames
from vocoder.codecs.mimi.net import MimiDecoder, load_decoder
from vocoder.codecs.room import DeviceLimits

# Convolutions over pieces of other lengths round otherwise.
_TOLERANCE: Final = 2


@dataclass
class Stream:
    """What was decoded so far, of one stream."""

    state: CarriedState


class Mimi(Codec):
    """A loaded decoder. The codes say who speaks; the voice is not looked at."""

    def __init__(self, name: str, net: MimiDecoder) -> None:
        self._net, self.spec = net, spec_of(name, net)

    @classmethod
    def load(cls, name: str, folder: Path) -> Self:
        """Read the folder of a codec, or of a talker that holds it; raises CheckpointError."""
        return cls(name, _read(folder))

    def open(self, request: SpeechRequest, frame: int = 0) -> Stream:
        del request, frame  # only distances matter
        return Stream(self._net.new_state())

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        found = {id(work): torch.zeros(0) for work in batch}
        works = [work for work in batch if len(work)]
        if works:
            codes = [torch.from_numpy(work.frames["codes"].astype("int64")) for work in works]
            sounds, after = decode_together(self._net, [w.state.state for w in works], codes)
            for work, sound, state in zip(works, sounds, after, strict=True):
                work.state.state, found[id(work)] = state, sound
        return [Decoded(found[id(work)].numpy()) for work in batch]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket


@dataclass(eq=False)
class DeviceStream:
    """The host's part of a stream."""

    row: int
    fresh: bool = True


class MimiOnDevice(DeviceCodec):
    """A loaded decoder, whose weights are on the device."""

    def __init__(self, name: str, net: MimiDecoder, device: Device, room: DeviceLimits) -> None:
        self._net = net
        blank = {name: tensor[0] for name, tensor in net.new_state().named().items()}
        super().__init__(spec_of(name, net), device, room, blank)

    @classmethod
    def load(cls, name: str, folder: Path, device: Device, room: DeviceLimits) -> Self:
        """As Mimi.load; raises CheckpointError."""
        return cls(name, _read(folder, str(device.where)), device, room)

    def open(self, request: SpeechRequest, frame: int = 0) -> DeviceStream:
        del request, frame
        return DeviceStream(self.resident.take())

    def pieces(self, work: Work) -> Sequence[Slice]:
        return [Slice(work.state.row, work.frames, work.state.fresh)] if len(work) else []

    def launched(self, work: Work) -> None:
        work.state.fresh = work.state.fresh and not len(work)

    def step(
        self, inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        before = CarriedState.of(list(state.values()))
        samples, after = self._net.step(inputs["codes"].long(), inputs["lengths"], before)
        return {"samples": samples}, after.named()


def _read(folder: Path, device: str = "cpu") -> MimiDecoder:
    """Of either kind of file; raises CheckpointError."""
    load = kyutai.load_decoder if kyutai.holds(folder) else load_decoder
    return load(folder, device)


def spec_of(name: str, net: MimiDecoder) -> CodecSpec:
    """What the engine has to know of a decoder. Talkers have ids of their own beyond its codes."""
    c = net.sizes
    return CodecSpec(
        name,
        "mimi",
        c.sampling_rate,
        c.frame_samples,
        {"codes": Field((c.num_quantizers,), "i2")},
        context_frames=context_frames(c),
        tolerance=_TOLERANCE,
    )
