"""Loading a Pocket TTS checkpoint."""

from __future__ import annotations

from pathlib import Path

from ttsfamilies.base.talker.loading import ModelOptions
from ttsfamilies.pocket_tts.family import PocketTts


def load(name: str, folder: Path, how: ModelOptions) -> PocketTts:
    """A checkpoint's folder as model `name`; raises CheckpointError.

    Latents are fed back, so all of it computes in float32 on every device.
    """
    return PocketTts.load(name, folder, device=how.place)
