"""The default voice's codec family in the engine: `CantorDecoder` with one `State` a stream."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, Self

import torch
from safetensors.torch import load_file

from ttscommon.errors import MalformedMessage, UnknownVoice
from ttscommon.fields import Field
from ttscommon.messages import SpeechRequest
from ttscommon.replicas import Voice
from ttscommon.voice import VoiceError, VoiceFolder
from vocoder.codecs.base import Codec, CodecSpec, Decoded, Work
from vocoder.codecs.cantor_net import (
    FFT,
    FRAME_SAMPLES,
    SAMPLE_RATE,
    TAIL,
    CantorCodecConfig,
    CantorDecoder,
    State,
)

# Matrix products of fewer rows take other kernels, which round otherwise, and a pitch that is off
# by one bit is out of phase a second later. Padded to here, every batch gives the same samples.
_LEAST_ROWS: Final = 8

# The oscillator's phase in cycles and the last pitch in Hz: every pulse since the voice's last
# onset is in the first, so no context is long enough to tell it.
_MARK: Final = struct.Struct("<df")


class Cantor(Codec):
    """Causal source-filter decoder: exact carried state, the last 22 ms held back."""

    def __init__(self, name: str, decoder: CantorDecoder, voices: tuple[Voice, ...]) -> None:
        self.spec = CodecSpec(
            name,
            "cantor",
            sample_rate=SAMPLE_RATE,
            samples_per_frame=FRAME_SAMPLES,
            frame={"codes": Field((decoder.config.codebooks,), "i2", decoder.config.codebook_size)},
            lag_samples=TAIL,
            context_frames=decoder.context_frames,
            settle_samples=FFT,
            voices=voices,
        )
        self._decoder = decoder.eval()
        self._voices = {voice.id for voice in voices}

    @classmethod
    def load(cls, name: str, voice: VoiceFolder) -> Self:
        """Build what the voice's config describes; raises VoiceError if its weights do not fit."""
        decoder = CantorDecoder(CantorCodecConfig(**voice.config["codec"]))
        weights = {key: value.float() for key, value in load_file(voice.vocoder_weights).items()}
        try:
            decoder.load_state_dict(weights)
        except RuntimeError as error:
            raise VoiceError(f"{voice.vocoder_weights} does not fit its config") from error
        codec = cls(name, decoder, voice.voices)
        if codec.spec.sample_rate != voice.sample_rate:
            raise VoiceError(f"{voice.path}: the codec gives {codec.spec.sample_rate} Hz")
        return codec

    def open(self, request: SpeechRequest, frame: int = 0) -> State:
        """The codes say who speaks; the voice is only checked."""
        if request.voice not in self._voices:
            raise UnknownVoice(f"there is no voice {request.voice!r}", param="voice")
        return self._decoder.new_state(request.seed, frame)

    def restore(self, state: State, mark: bytes) -> None:
        try:
            phase, pitch = _MARK.unpack(mark)
        except struct.error as error:
            raise MalformedMessage("this checkpoint is not of a cantor codec") from error
        state.phase = torch.full_like(state.phase, phase)
        state.pitch = torch.full_like(state.pitch, pitch)

    def launch(self, batch: Sequence[Work]) -> list[Decoded]:
        device = self._decoder.codes.device
        lengths = torch.tensor([len(work) for work in batch])
        longest = max(int(lengths.max()), -(-_LEAST_ROWS // len(batch)))
        codes = torch.zeros(len(batch), longest, self._decoder.config.codebooks, dtype=torch.int64)
        for row, work in zip(codes, batch, strict=True):
            row[: len(work)] = torch.from_numpy(work.frames["codes"].astype("int64"))
        pieces = self._decoder.step(
            codes.to(device),
            lengths.to(device),
            [work.state for work in batch],
            torch.tensor([work.final for work in batch], device=device),
        )
        return [
            Decoded(piece.cpu().numpy(), _mark(work.state))
            for piece, work in zip(pieces, batch, strict=True)
        ]

    def collect(self, ticket: list[Decoded]) -> list[Decoded]:
        return ticket


def _mark(state: State) -> bytes:
    return _MARK.pack(state.phase.item(), state.pitch.item())
