"""Recordings to what a Base checkpoint clones: a speaker's embedding, and codes to continue."""

from __future__ import annotations

import numpy as np
import torch

from ttscommon.engine.nn.weights import digest
from ttscommon.sound.recordings import read_recording
from ttscommon.wire.fields import Arrays
from ttsfamilies.base.lm.recordings import resampled
from ttsfamilies.qwen3_tts.codec_encoder import CodecEncoder
from ttsfamilies.qwen3_tts.speaker import SpeakerEncoder


class Cloning:
    """Both encoders of a checkpoint. revision: names their weights."""

    def __init__(self, speaker: SpeakerEncoder, codec: CodecEncoder) -> None:
        self._speaker, self._codec = speaker, codec
        self._rate = codec.config.input_sample_rate
        self.revision = digest((speaker, codec))[:32]

    @torch.inference_mode()
    def derive(self, recording: bytes) -> Arrays:
        """See Family.derive."""
        samples = torch.from_numpy(resampled(*read_recording(recording), self._rate))
        device = self._codec.slow_down.weight.device
        heard = samples.to(device)
        return {
            "speaker": self._speaker(heard[None])[0].cpu().numpy(),
            "codes": self._codec(heard).cpu().numpy().astype(np.int16),
        }
