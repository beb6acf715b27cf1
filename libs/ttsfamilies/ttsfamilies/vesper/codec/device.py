"""The vesper codec on a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.device.device import Device
from ttscommon.engine.voice import VoiceFolder
from ttscommon.wire.fields import Arrays, concatenate
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.codec.base import Work
from ttsfamilies.base.codec.device_codec import DeviceCodec, Slice
from ttsfamilies.base.codec.room import DeviceLimits
from ttsfamilies.vesper.codec.codec import (
    Preset,
    mark_of,
    phase_of,
    preset_of,
    presets_of,
    read_decoder,
    spec_of,
)
from ttsfamilies.vesper.codec.net import FRAME_SAMPLES, DecoderState, VesperDecoder

# Products of other batches round otherwise, by far less than half a step.
_TOLERANCE: Final = 1
_CARRIED: Final = ("inputs", "tails", "f0", "source", "windows", "phase")
_NO_MARK: Final = -1


@dataclass(eq=False)
class DeviceStream:
    """The host's part of a stream; phase: to go on with, if it was given a mark."""

    row: int
    frame: int
    preset: Preset
    phase: int = _NO_MARK
    fresh: bool = True


class VesperOnDevice(DeviceCodec):
    """Causal with a short look ahead: exact carried state, the last frames held back."""

    silences = True
    conditioning: ClassVar[Mapping[str, str]] = {"level": "f4", "span": "f4", "phase": "i8"}

    def __init__(
        self,
        name: str,
        decoder: VesperDecoder,
        voices: tuple[Voice, ...],
        presets: Mapping[str, Preset],
        device: Device,
        room: DeviceLimits,
    ) -> None:
        """decoder: still on the CPU."""
        self._presets = presets
        self._late = decoder.config.late_frames
        self._silence = decoder.silence.numpy().astype(np.int16)
        blank = decoder.eval().new_state()
        spec = replace(spec_of(name, decoder, voices), tolerance=_TOLERANCE)
        carried = {name: getattr(blank, name) for name in _CARRIED}
        super().__init__(spec, device, room, carried, extra=self._late)
        self._decoder = decoder.to(device.where)

    @classmethod
    def load(cls, name: str, voice: VoiceFolder, device: Device, room: DeviceLimits) -> Self:
        """Build what the voice's config describes; raises VoiceError if its weights do not fit."""
        return cls(name, read_decoder(voice), voice.voices, presets_of(voice), device, room)

    def open(self, request: SpeechRequest, frame: int = 0) -> DeviceStream:
        preset = preset_of(request, self._presets)
        return DeviceStream(self.resident.take(), frame, preset)

    def restore(self, state: DeviceStream, mark: bytes) -> None:
        state.phase = phase_of(mark)

    def pieces(self, work: Work) -> Sequence[Slice]:
        stream: DeviceStream = work.state
        late = np.tile(self._silence, (self._late * work.final, 1))
        told = {**stream.preset._asdict(), "phase": stream.phase}
        skip = max(0, self._late - stream.frame) * FRAME_SAMPLES
        frames = concatenate([work.frames, {"codes": late}])
        return [Slice(stream.row, frames, stream.fresh, told, skip)]

    def launched(self, work: Work) -> None:
        stream: DeviceStream = work.state
        stream.frame += len(work)
        stream.phase, stream.fresh = _NO_MARK, False

    def mark(self, results: Arrays, row: int) -> bytes:
        return mark_of(int(results["phase"][row]))

    def step(
        self, inputs: Mapping[str, Tensor], state: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        lengths, phase = inputs["lengths"], inputs["phase"]
        before = DecoderState(
            **{**state, "phase": torch.where(phase == _NO_MARK, state["phase"], phase)},
            frame=torch.zeros_like(lengths),
            level=inputs["level"],
            span=inputs["span"],
        )
        samples, after = self._decoder.decode(inputs["codes"].long(), lengths, before)
        carried = {name: getattr(after, name) for name in _CARRIED}
        return {"samples": samples, "phase": after.phase}, carried
