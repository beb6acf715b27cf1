"""code2wav in the engine, on the CPU and on a device: exact state is carried for ever.

The reference never makes the last `lag_samples` of a request's frames; here they are silence, so
that a request has as many samples as its frames fill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.engine.inflight import LaunchPath
from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Samples, Work
from ttsfamilies.base.codec.carried import CarriedState, decode_together
from ttsfamilies.base.codec.device_codec import DeviceCodec, Slice, Ticket
from ttsfamilies.base.codec.room import DeviceLimits
from ttsfamilies.qwen3_omni.codec.config import SAMPLE_RATE
from ttsfamilies.qwen3_omni.codec.net import LaggingDecoder, load_decoder

# Convolutions over pieces of other lengths round otherwise.
_TOLERANCE: Final = 2


@dataclass(eq=False)
class LaggingStream:
    """What was decoded of a stream. skip: samples in front of it that the next frame gives too."""

    state: CarriedState
    skip: int


class OmniCodec(Codec):
    """A loaded decoder. The codes say who speaks; the voice is not looked at."""

    def __init__(self, name: str, net: LaggingDecoder) -> None:
        self._net, self.spec = net, spec_of(name, net)

    @classmethod
    def load(cls, name: str, folder: Path) -> Self:
        """Read a checkpoint folder; raises CheckpointError."""
        return cls(name, load_decoder(folder))

    def open(self, request: SpeechRequest, frame: int = 0) -> LaggingStream:
        del request  # of the frame only distances matter
        return LaggingStream(self._net.new_state(), skipped(self.spec, frame))

    @torch.inference_mode()
    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        works = [work for work in batch if len(work)]
        found: dict[int, Samples] = {}
        if works:
            codes = [torch.from_numpy(work.frames["codes"].astype("int64")) for work in works]
            states = [work.state.state for work in works]
            sounds, after = decode_together(self._net, states, codes)
            for work, sound, state in zip(works, sounds, after, strict=True):
                stream: LaggingStream = work.state
                found[id(work)] = sound.numpy()[stream.skip :]
                stream.state, stream.skip = state, 0
        return [
            Decoded(ended(found.get(id(work), _NOTHING), ends(work), self.spec)) for work in batch
        ]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket


_NOTHING: Final[Samples] = np.zeros(0, np.float32)


def skipped(spec: CodecSpec, frame: int) -> int:
    """Samples in front of a request's first that a state opened at `frame` gives."""
    return 0 if frame else spec.lag_samples


def ends(work: Work) -> bool:
    """Whether the work is a stream's last, and the stream had any frames."""
    return work.final and not work.state.skip


def ended(sound: Samples, last: bool, spec: CodecSpec) -> Samples:
    """With the silence that fills a stream's last frame."""
    if not last:
        return sound
    return np.concatenate([sound, np.zeros(spec.lag_samples, np.float32)])


@dataclass(eq=False)
class LaggingRow:
    """The host's part of a stream on a device; see LaggingStream."""

    row: int
    skip: int
    fresh: bool = True


class Launched(NamedTuple):
    """A ticket, and of each work whether its stream ends."""

    ticket: Ticket
    ends: Sequence[bool]


class OmniCodecOnDevice(DeviceCodec):
    """A loaded decoder, whose weights are on the device."""

    def __init__(self, name: str, net: LaggingDecoder, device: Device, room: DeviceLimits) -> None:
        self._net = net
        blank = {name: tensor[0] for name, tensor in net.new_state().named().items()}
        super().__init__(spec_of(name, net), device, room, blank)

    @classmethod
    def load(cls, name: str, folder: Path, device: Device, room: DeviceLimits) -> Self:
        """As OmniCodec.load; raises CheckpointError."""
        return cls(name, load_decoder(folder, str(device.where)), device, room)

    def open(self, request: SpeechRequest, frame: int = 0) -> LaggingRow:
        del request
        return LaggingRow(self.resident.take(), skipped(self.spec, frame))

    def pieces(self, work: Work) -> Sequence[Slice]:
        if not len(work):
            return []
        row: LaggingRow = work.state
        return [Slice(row.row, work.frames, row.fresh, skip=row.skip)]

    def launched(self, work: Work) -> None:
        if len(work):
            work.state.fresh, work.state.skip = False, 0

    def step(
        self, inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        before = CarriedState.of(list(state.values()))
        samples, after = self._net.step(inputs["codes"].long(), inputs["lengths"], before)
        return {"samples": samples}, after.named()

    def launch(self, batch: Sequence[Work]) -> Launched:  # type: ignore[override]
        ticket = super().launch(batch)
        return Launched(ticket, [ends(work) for work in batch])

    def collect(self, ticket: Launched) -> list[Decoded]:  # type: ignore[override]
        found = super().collect(ticket.ticket)
        return [
            Decoded(ended(one.samples, last, self.spec), one.mark)
            for one, last in zip(found, ticket.ends, strict=True)
        ]

    def paths(self, ticket: Launched) -> Sequence[LaunchPath]:  # type: ignore[override]
        return super().paths(ticket.ticket)


def spec_of(name: str, net: LaggingDecoder) -> CodecSpec:
    """What the engine has to know of a decoder."""
    c = net.config
    return CodecSpec(
        name,
        "qwen3_omni",
        SAMPLE_RATE,
        c.frame_samples,
        {"codes": Field((c.num_quantizers,), "i2", c.codebook_size)},
        lag_samples=c.lag_samples,
        context_frames=c.context_frames,
        tolerance=_TOLERANCE,
    )
