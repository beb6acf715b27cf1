"""Loading a Pocket TTS checkpoint."""

from __future__ import annotations

from pathlib import Path

from talker.models.loading import ModelOptions
from talker.models.pocket_tts.family import PocketTts


def load(name: str, folder: Path, how: ModelOptions) -> PocketTts:
    """A checkpoint's folder as model `name`; raises CheckpointError.

    Latents are fed back, so all of it computes in float32 on every device.
    """
    return PocketTts.load(name, folder, device=how.place)
