"""The vesper codec in the engine: `VesperDecoder` with one `State` a stream."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Self

import torch
from safetensors.torch import load_file

from ttscommon.errors import MalformedMessage, UnknownVoice
from ttscommon.fields import Field
from ttscommon.messages import SpeechRequest
from ttscommon.nn import halve
from ttscommon.replicas import Voice
from ttscommon.voice import VoiceError, VoiceFolder
from vocoder.codecs.base import Codec, CodecSpec, Decoded, Work
from vocoder.codecs.vesper_net import (
    CODEBOOKS,
    FRAME_SAMPLES,
    SETTLE_SAMPLES,
    State,
    VesperCodecConfig,
    VesperDecoder,
)
from vocoder.codecs.vesper_sound import SAMPLE_RATE

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

    def __init__(
        self,
        name: str,
        decoder: VesperDecoder,
        voices: tuple[Voice, ...],
        presets: Mapping[str, Preset],
    ) -> None:
        c = decoder.config
        late = c.late_frames * FRAME_SAMPLES
        self.spec = CodecSpec(
            name,
            "vesper",
            sample_rate=SAMPLE_RATE,
            samples_per_frame=FRAME_SAMPLES,
            frame={"codes": Field((CODEBOOKS,), "i2", max(c.codebook_size, c.text_codes))},
            lag_samples=late,
            context_frames=decoder.context_frames,
            settle_samples=max(0, SETTLE_SAMPLES - late),
            voices=voices,
        )
        self._decoder = decoder.eval()
        self._presets = presets

    @classmethod
    def load(cls, name: str, voice: VoiceFolder) -> Self:
        """Build what the voice's config describes; raises VoiceError if its weights do not fit."""
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
        halve(decoder)
        presets = {
            name: Preset(preset["level"], preset["span"])
            for name, preset in voice.config["presets"].items()
        }
        codec = cls(name, decoder, voice.voices, presets)
        if codec.spec.sample_rate != voice.sample_rate:
            raise VoiceError(f"{voice.path}: the codec gives {codec.spec.sample_rate} Hz")
        return codec

    def open(self, request: SpeechRequest, frame: int = 0) -> State:
        preset = self._presets.get(request.voice)
        if preset is None:
            raise UnknownVoice(f"there is no voice {request.voice!r}", param="voice")
        return self._decoder.new_state(preset.level, preset.span, frame)

    def restore(self, state: State, mark: bytes) -> None:
        try:
            (phase,) = _MARK.unpack(mark)
        except struct.error as error:
            raise MalformedMessage("this checkpoint is not of a vesper codec") from error
        state.phase = torch.full_like(state.phase, phase)

    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        pieces = self._decoder.step(
            [torch.from_numpy(work.frames["codes"].astype("int64")) for work in batch],
            [work.state for work in batch],
            [work.final for work in batch],
            _LEAST_FRAMES,
        )
        return [
            Decoded(piece.numpy(), _MARK.pack(int(work.state.phase)))
            for piece, work in zip(pieces, batch, strict=True)
        ]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket
