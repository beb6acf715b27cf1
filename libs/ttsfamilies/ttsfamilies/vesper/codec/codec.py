"""The vesper codec on the CPU: `VesperDecoder` with one `DecoderState` a stream."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Self

import torch
from safetensors.torch import load_file

from ttscommon.engine.nn import halve
from ttscommon.engine.voice import VoiceFolder
from ttscommon.wire.errors import MalformedMessage, UnknownVoice, VoiceError
from ttscommon.wire.fields import Field
from ttscommon.wire.messages import SpeechRequest
from ttscommon.wire.replicas import Voice
from ttsfamilies.base.codec.base import Codec, CodecSpec, Decoded, Work
from ttsfamilies.vesper.codec.net import (
    CODEBOOKS,
    FRAME_SAMPLES,
    SETTLE_SAMPLES,
    DecoderState,
    VesperCodecConfig,
    VesperDecoder,
)
from ttsfamilies.vesper.codec.sizes import SAMPLE_RATE

# Matrix products of fewer rows take other kernels, which round otherwise. A frame is four rows.
_LEAST_FRAMES: Final = 2

# The pulses' phase in 2**-32 cycles: every pulse so far is in it, no context is long enough.
_MARK: Final = struct.Struct("<I")


class Preset(NamedTuple):
    """How a voice departs from the speaker's own: change of log pitch, and factor on its range."""

    level: float = 0.0
    span: float = 1.0


class Vesper(Codec):
    """Causal with a short look ahead: exact carried state, the last frames held back."""

    silences = True

    def __init__(
        self,
        name: str,
        decoder: VesperDecoder,
        voices: tuple[Voice, ...],
        presets: Mapping[str, Preset],
    ) -> None:
        self.spec = spec_of(name, decoder, voices)
        self._decoder = decoder.eval()
        self._presets = presets

    @classmethod
    def load(cls, name: str, voice: VoiceFolder) -> Self:
        """Build what the voice's config describes; raises VoiceError if its weights do not fit."""
        decoder = read_decoder(voice)
        halve(decoder)
        return cls(name, decoder, voice.voices, presets_of(voice))

    def open(self, request: SpeechRequest, frame: int = 0) -> DecoderState:
        preset = preset_of(request, self._presets)
        return self._decoder.new_state(preset.level, preset.span, frame)

    def restore(self, state: DecoderState, mark: bytes) -> None:
        state.phase = torch.full_like(state.phase, phase_of(mark))

    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        pieces = self._decoder.step(
            [torch.from_numpy(work.frames["codes"].astype("int64")) for work in batch],
            [work.state for work in batch],
            [work.final for work in batch],
            _LEAST_FRAMES,
        )
        return [
            Decoded(piece.numpy(), mark_of(int(work.state.phase)))
            for piece, work in zip(pieces, batch, strict=True)
        ]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket


def spec_of(name: str, decoder: VesperDecoder, voices: tuple[Voice, ...]) -> CodecSpec:
    """What the engine needs to know of a decoder."""
    c = decoder.config
    late = c.late_frames * FRAME_SAMPLES
    return CodecSpec(
        name,
        "vesper",
        sample_rate=SAMPLE_RATE,
        samples_per_frame=FRAME_SAMPLES,
        frame={"codes": Field((CODEBOOKS,), "i2", max(c.codebook_size, c.text_codes))},
        lag_samples=late,
        context_frames=decoder.context_frames,
        settle_samples=max(0, SETTLE_SAMPLES - late),
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
