"""Voices of Chatterbox: the one that is built in, and those of recordings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import numpy as np
import torch

from talker.models.chatterbox.config import SPEAKER, T3Sizes
from talker.models.chatterbox.loudness import levelled
from talker.models.chatterbox.request import HEARD, SPEAKER_ROW
from talker.models.chatterbox.speaker import RATE_HZ, VoiceVector, trimmed
from talker.models.shared.recordings import resampled
from talker.models.shared.s3.references import PROMPT_HZ, conditions, prompt_mel
from talker.models.shared.s3.resampling import windowed_sinc
from talker.models.shared.s3.speaker import SpeakerVector
from talker.models.shared.s3.tokens import SpeechTokens
from talker.models.shared.s3.weights import load_speaker, load_tokens
from ttscommon.engine.nn.weights import Shards, digest, fill, same
from ttscommon.sound.recordings import BadRecording, Floats, read_recording
from ttscommon.wire.fields import Arrays

BUILT_IN: Final = "default"
_VOICE_ROW, _VOICE_TOKENS = "t3.speaker_emb", "t3.cond_prompt_speech_tokens"
_TOKENS, _SPEAKER = "tokenizer.", "speaker_encoder."
_HIGHEST_HZ: Final = 8000.0
_FLOW_S: Final = 10
_LEAST_TURBO_S: Final = 5
_LOUDNESS: Final = -27.0


class NamedPart:
    """The tensors of a checkpoint whose names begin alike, without the books of training."""

    def __init__(self, shards: Shards, *begins: str) -> None:
        self._shards = shards
        self.shapes = {
            name: shape
            for name, shape in shards.shapes.items()
            if name.startswith(begins) and not name.endswith(_BOOKS)
        }
        self.read, self.where = shards.read, shards.where


_BOOKS: Final = ("num_batches_tracked", "_mel_filters", "tokenizer.window", "freqs_cis")


class Hearing:
    """The networks that hear a recording. revision: names their weights."""

    def __init__(
        self, c: T3Sizes, tokens: SpeechTokens, speaker: SpeakerVector, voice: VoiceVector
    ) -> None:
        self._c, self._tokens, self._speaker, self._voice = c, tokens, speaker, voice
        self._device = next(voice.parameters()).device
        self._mel = prompt_mel(_HIGHEST_HZ).to(self._device)
        self.revision = digest((tokens, speaker, voice))[:32]

    @classmethod
    def load(cls, checkpoint: Path, device: str, c: T3Sizes) -> Self | None:
        """Of a checkpoint's folder; None where they are not all there. Raises CheckpointError."""
        shards = Shards.of(checkpoint)
        parts = [NamedPart(shards, *names) for names in ((_TOKENS,), (_SPEAKER,), _VOICE)]
        if not all(part.shapes for part in parts):
            return None
        tokens, speaker, own = parts
        voice = VoiceVector()
        fill(voice, {name: same(name) for name in voice.state_dict()}, own, others=_UNUSED)
        return cls(
            c,
            load_tokens(tokens, device, prefix=_TOKENS),
            load_speaker(speaker, device, prefix=_SPEAKER),
            voice.eval().requires_grad_(False).to(device),
        )

    @torch.inference_mode()
    def derive(self, recording: bytes) -> Arrays:
        """See Family.derive. The package resamples in two ways, and so does this."""
        samples = resampled(*read_recording(recording), PROMPT_HZ)
        if self._c.gpt:
            if len(samples) <= _LEAST_TURBO_S * PROMPT_HZ:
                raise BadRecording(f"the recording is not longer than {_LEAST_TURBO_S} s")
            samples = levelled(samples, PROMPT_HZ, _LOUDNESS)
        heard, flow = resampled(samples, PROMPT_HZ, RATE_HZ), samples[: _FLOW_S * PROMPT_HZ]
        low, most = self._on_device(windowed_sinc(flow, PROMPT_HZ, RATE_HZ)), self._c.heard
        told = self._tokens(self._on_device(heard[: self._c.heard_s * RATE_HZ]))[:most]
        mel = self._mel(self._on_device(flow)[None])[0].T
        return {
            **conditions(self._tokens(low), mel, self._speaker(low)),
            HEARD: told.cpu().numpy().astype(np.int16),
            SPEAKER_ROW: self._voice(self._on_device(trimmed(heard)))[None].cpu().numpy(),
        }

    def _on_device(self, samples: Floats) -> torch.Tensor:
        return torch.from_numpy(samples).to(self._device)


_VOICE: Final = ("lstm.", "proj.", "similarity_")
_UNUSED: Final = ("similarity_",)


def built_in(checkpoint: Path) -> Mapping[str, Arrays]:
    """What the talker is told of the checkpoint's own voice, by its name; empty without one."""
    shards = Shards.of(checkpoint)
    if not {_VOICE_ROW, _VOICE_TOKENS} <= shards.shapes.keys():
        return {}
    speaker = shards.read(_VOICE_ROW).float().reshape(1, SPEAKER).numpy()
    tokens = shards.ids(_VOICE_TOKENS).numpy().astype(np.int16)
    return {BUILT_IN: {SPEAKER_ROW: speaker, HEARD: tokens}}


def silent_reference() -> Arrays:
    """What to warm up with where no voice is built in."""
    return {SPEAKER_ROW: np.zeros((1, SPEAKER), np.float32), HEARD: np.zeros(1, np.int16)}
