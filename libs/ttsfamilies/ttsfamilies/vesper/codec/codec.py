"""The vesper codec, on the CPU with one `DecoderState` a stream, and on a device."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from ttscommon.engine.kernels.choice import compiles
from ttscommon.engine.nn import halve
from ttscommon.engine.voice import VoiceFolder, load_voice
from ttscommon.wire.errors import MalformedMessage, UnknownVoice, VoiceError
from ttscommon.wire.fields import Arrays, Field, concatenate
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Work
from ttsfamilies.base.codec.executor import Slice
from ttsfamilies.base.codec.options import ON_CPU, CodecOptions
from ttsfamilies.base.codec.stateful import StatefulCodec
from ttsfamilies.vesper.codec.layers import SAMPLE_RATE
from ttsfamilies.vesper.codec.net import (
    CODEBOOKS,
    DecoderState,
    VesperCodecConfig,
    VesperDecoder,
)

if TYPE_CHECKING:
    from ttsfamilies.vesper.codec.hops import HopDecoder, HopState

# Matrix products of fewer rows take other kernels, which round otherwise. A frame is four rows.
_LEAST_FRAMES: Final = 2

# The pulses' phase in 2**-32 cycles: every pulse so far is in it, no context is long enough.
_MARK: Final = struct.Struct("<I")
# Products of other batches round otherwise, by far less than half a step.
_TOLERANCE: Final = 1
_CARRIED: Final = ("inputs", "tails", "f0", "source", "windows", "phase")
_NO_MARK: Final = -1


def load(name: str, folder: Path, how: CodecOptions = ON_CPU) -> Codec:
    """A voice's folder; raises VoiceError if its weights do not fit its config."""
    voice = load_voice(folder)
    decoder, presets = read_decoder(voice), presets_of(voice)
    if how.device is not None:
        return VesperOnDevice(name, decoder, voice.voices, presets, how)
    if compiles():
        from ttsfamilies.vesper.codec.hops import fits

        if fits(decoder):
            return VesperCodec(name, decoder, voice.voices, presets, compiled=True)
    halve(decoder)
    return VesperCodec(name, decoder, voice.voices, presets)


class Preset(NamedTuple):
    """How a voice departs from the speaker's own: change of log pitch, and factor on its range."""

    level: float = 0.0
    span: float = 1.0


class VesperCodec(Codec):
    """Causal with a short look ahead: exact carried state, the last frames held back."""

    silences = True

    def __init__(
        self,
        name: str,
        decoder: VesperDecoder,
        voices: tuple[Voice, ...],
        presets: Mapping[str, Preset],
        *,
        compiled: bool = False,
    ) -> None:
        """compiled: in loops whose streams have no padding; see `hops.fits`."""
        self.spec = spec_of(name, decoder, voices)
        self._decoder: VesperDecoder | HopDecoder = decoder.eval()
        if compiled:
            from ttsfamilies.vesper.codec.hops import HopDecoder

            self._decoder = HopDecoder(decoder)
        self._presets = presets

    def open(self, request: SpeechRequest, frame: int = 0) -> DecoderState | HopState:
        preset = preset_of(request, self._presets)
        return self._decoder.new_state(preset.level, preset.span, frame)

    def restore(self, state: DecoderState | HopState, mark: bytes) -> None:
        phase = phase_of(mark)
        if isinstance(state, DecoderState):
            state.phase = torch.full_like(state.phase, phase)
        else:
            state.phase = phase

    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        codes = [work.frames["codes"].astype(np.int64) for work in batch]
        of = [work.state for work in batch], [work.final for work in batch]
        if isinstance(self._decoder, VesperDecoder):
            given = [torch.from_numpy(one) for one in codes]
            pieces = [one.numpy() for one in self._decoder.step(given, *of, _LEAST_FRAMES)]
        else:
            pieces = self._decoder.step(codes, *of)
        return [
            Decoded(piece, mark_of(int(work.state.phase)))
            for piece, work in zip(pieces, batch, strict=True)
        ]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket


@dataclass(eq=False)
class DeviceStream:
    """The host's part of a stream; phase: to go on with, if it was given a mark."""

    row: Any
    frame: int
    preset: Preset
    phase: int = _NO_MARK
    fresh: bool = True


class VesperOnDevice(StatefulCodec):
    """Causal with a short look ahead: exact carried state, the last frames held back."""

    silences = True
    conditioning: ClassVar[Mapping[str, str]] = {"level": "f4", "span": "f4", "phase": "i8"}

    def __init__(
        self,
        name: str,
        decoder: VesperDecoder,
        voices: tuple[Voice, ...],
        presets: Mapping[str, Preset],
        how: CodecOptions,
    ) -> None:
        """decoder: still on the CPU."""
        self._presets = presets
        self._late = decoder.config.late_frames
        self._silence = decoder.silence.numpy().astype(np.int16)
        blank = decoder.eval().new_state()
        spec = replace(spec_of(name, decoder, voices), tolerance=_TOLERANCE)
        carried = {name: getattr(blank, name) for name in _CARRIED}
        super().__init__(spec, how, carried, extra=self._late)
        self._decoder = decoder.to(how.where)

    def open(self, request: SpeechRequest, frame: int = 0) -> DeviceStream:
        preset = preset_of(request, self._presets)
        return DeviceStream(self.executor.take(), frame, preset)

    def restore(self, state: DeviceStream, mark: bytes) -> None:
        state.phase = phase_of(mark)

    def slices(self, work: Work) -> Sequence[Slice]:
        stream: DeviceStream = work.state
        late = np.tile(self._silence, (self._late * work.final, 1))
        told = {**stream.preset._asdict(), "phase": stream.phase}
        skip = max(0, self._late - stream.frame) * self.spec.samples_per_frame
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


def spec_of(name: str, decoder: VesperDecoder, voices: tuple[Voice, ...]) -> CodecSpec:
    """What the engine needs to know of a decoder."""
    c = decoder.config
    late = c.late_frames * c.frame_samples
    return CodecSpec(
        name,
        "vesper",
        sample_rate=SAMPLE_RATE,
        samples_per_frame=c.frame_samples,
        frame={"codes": Field((CODEBOOKS,), "i2", max(c.codebook_size, c.text_codes))},
        lag_samples=late,
        context_frames=decoder.context_frames,
        settle_samples=max(0, c.settle_samples - late),
        silence=tuple(decoder.silence.tolist()),
        voices=voices,
    )


def read_decoder(voice: VoiceFolder) -> VesperDecoder:
    """The decoder that a voice's config describes; raises VoiceError if its weights do not fit."""
    if voice.sample_rate != SAMPLE_RATE:
        raise VoiceError(f"{voice.path}: the codec gives {SAMPLE_RATE} Hz")
    config = dict(voice.config["codec"])
    decoder = VesperDecoder(VesperCodecConfig(**{**config, "ahead": tuple(config["ahead"])}))
    weights = {
        key: value.float() if value.is_floating_point() else value
        for key, value in load_file(voice.vocoder_weights).items()
    }
    try:
        decoder.load_state_dict(weights)
    except RuntimeError as error:
        raise VoiceError(f"{voice.vocoder_weights} does not fit its config") from error
    return decoder


def presets_of(voice: VoiceFolder) -> dict[str, Preset]:
    """By the names that requests ask for."""
    return {
        name: Preset(preset["level"], preset["span"])
        for name, preset in voice.config["presets"].items()
    }


def preset_of(request: SpeechRequest, presets: Mapping[str, Preset]) -> Preset:
    """The preset that a request asks for; raises UnknownVoice."""
    if (preset := presets.get(request.voice)) is None:
        raise UnknownVoice(f"there is no voice {request.voice!r}", param="voice")
    return preset


def mark_of(phase: int) -> bytes:
    """Of the pulses' phase in 2**-32 cycles."""
    return _MARK.pack(phase)


def phase_of(mark: bytes) -> int:
    """The inverse of `mark_of`; raises MalformedMessage."""
    try:
        (phase,) = _MARK.unpack(mark)
    except struct.error as error:
        raise MalformedMessage("this checkpoint is not of a vesper codec") from error
    return int(phase)
