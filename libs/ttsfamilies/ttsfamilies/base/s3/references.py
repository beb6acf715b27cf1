"""Recordings to what a flow codec and its talker are told of them (streaming-flow)."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor

from ttscommon.engine.nn.weights import digest
from ttscommon.sound.recordings import BadRecording, Floats, read_recording
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.lm.mel import LogMel
from ttsfamilies.base.lm.recordings import windowed_sinc
from ttsfamilies.base.s3.speaker import SpeakerVector
from ttsfamilies.base.s3.tokens import RATE_HZ, SpeechTokens

PROMPT_HZ: Final = 24_000
MEL_BANDS: Final = 80
_FFT, _HOP = 1920, 480


def prompt_mel(highest_hz: float) -> LogMel:
    """The mel frames that flows begin with, 50 a second."""
    return LogMel(MEL_BANDS, PROMPT_HZ, _FFT, _HOP, highest_hz)


class FlowReferences:
    """The networks that hear a recording. replicate: all tokens count, and mel frames are cut or
    the last one is repeated to be two a token. revision: names their weights.
    """

    def __init__(
        self,
        tokens: SpeechTokens,
        speaker: SpeakerVector,
        highest_hz: float,
        *,
        replicate: bool = False,
    ) -> None:
        self._tokens, self._speaker, self._replicate = tokens, speaker, replicate
        self._device = next(tokens.parameters()).device
        self._mel = prompt_mel(highest_hz).to(self._device)
        self.revision = digest((tokens, speaker))[:32]

    def derive(self, recording: bytes) -> Arrays:
        """See Family.derive."""
        samples, rate = read_recording(recording)
        if rate < RATE_HZ:
            raise BadRecording(f"the recording has {rate} Hz, this model needs {RATE_HZ}")
        return self.hear(samples, rate)

    @torch.inference_mode()
    def hear(self, samples: Floats, rate: int) -> Arrays:
        """What `derive` gives of samples [samples] at RATE_HZ or more."""
        heard = self._on_device(windowed_sinc(samples, rate, RATE_HZ))
        mel = self._mel(self._on_device(windowed_sinc(samples, rate, PROMPT_HZ))[None])[0].T
        token = self._tokens(heard)
        if self._replicate:
            missing = max(0, 2 * len(token) - len(mel))
            mel = torch.cat((mel, mel[-1:].expand(missing, -1)))
        return conditions(token, mel, self._speaker(heard))

    def _on_device(self, samples: Floats) -> Tensor:
        return torch.from_numpy(samples).to(self._device)


def conditions(token: Tensor, mel: Tensor, speaker: Tensor) -> Arrays:
    """What codecs are told: ids [tokens], frames [frames, MEL_BANDS], the voice [192]; as many of
    the first two as both have.
    """
    count = min(len(token), len(mel) // 2)
    return {
        "token": token[:count].cpu().numpy().astype(np.int16),
        "mel": mel[: 2 * count].cpu().numpy(),
        "speaker": speaker[None].cpu().numpy(),
    }


def silence(tokens: int) -> Arrays:
    """Conditions to warm up with."""
    return conditions(torch.zeros(tokens), torch.zeros(2 * tokens, MEL_BANDS), torch.zeros(192))
