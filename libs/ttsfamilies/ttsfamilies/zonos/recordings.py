"""Voices of Zonos: vectors that a checkpoint's folder brings, and what recordings are turned into.

Both encoders are published apart from the talker and lie in folders of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file

from ttscommon.engine.checkpoint import VOICES, CheckpointError
from ttscommon.engine.nn.dac import DacEncoder, load_encoder
from ttscommon.engine.nn.weights import digest
from ttscommon.sound.recordings import read_recording
from ttscommon.wire.errors import BadRequest
from ttscommon.wire.fields import Array, Arrays
from ttsfamilies.base.s3.resampling import windowed_sinc
from ttsfamilies.zonos.config import CODEBOOKS, SAMPLE_RATE, SPEAKER
from ttsfamilies.zonos.speaker import RATE_HZ, SpeakerEncoder, load_speaker

CODEC: Final = "dac"


class ZonosRecordings:
    """speaker: None where no voice can be made. codec: None where speech cannot go on from one."""

    def __init__(self, speaker: SpeakerEncoder | None, codec: DacEncoder | None) -> None:
        self.speaker, self.codec = speaker, codec
        self._revision = ""

    @classmethod
    def load(cls, folder: Path) -> ZonosRecordings:
        """Of a checkpoint's folder; raises CheckpointError."""
        place = folder / CODEC
        codec = load_encoder(place) if place.is_dir() else None
        if codec and (codec.sizes.n_codebooks, codec.sizes.sampling_rate) != (
            CODEBOOKS,
            SAMPLE_RATE,
        ):
            raise CheckpointError(f"{place} is another codec than the one that Zonos speaks to")
        return cls(load_speaker(folder), codec)

    @property
    def accepts(self) -> tuple[str, ...]:
        """Fields of a request that it stands for."""
        if self.speaker is None:
            return ()
        return ("ref_audio", *(("ref_text", "x_vector_only_mode") if self.codec else ()))

    @property
    def revision(self) -> str:
        """Names the weights."""
        if not self._revision:
            self._revision = digest(net for net in (self.speaker, self.codec) if net)[:32]
        return self._revision

    @torch.inference_mode()
    def derive(self, recording: bytes) -> Arrays:
        """See Family.derive."""
        if self.speaker is None:
            raise BadRequest("this model cannot clone a voice", param="ref_audio")
        samples, rate = read_recording(recording)
        heard = torch.from_numpy(windowed_sinc(samples, rate, RATE_HZ))
        found: dict[str, Array] = {"speaker": self.speaker(heard)[None].numpy()}
        if self.codec is not None:
            whole = torch.from_numpy(windowed_sinc(samples, rate, SAMPLE_RATE))
            found["codes"] = self.codec(whole).numpy().astype(np.int16)
        return found


def load_voices(folder: Path) -> Mapping[str, Array]:
    """Speakers' vectors [SPEAKER] float32 by name, as saved from the reference; none without the
    file. Raises CheckpointError.
    """
    path = folder / VOICES
    if not path.exists():
        return {}
    try:
        found = load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is truncated or damaged ({error})") from error
    for name, vector in found.items():
        if vector.size != SPEAKER or not np.isfinite(vector).all():
            raise CheckpointError(f"{path}: {name} is no speaker's vector of {SPEAKER} numbers")
    return {name: found[name].reshape(-1).astype(np.float32) for name in sorted(found)}
